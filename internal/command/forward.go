package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"notifier/internal/builtin"
)

// installs are the namespaces in which notifier is searched: that of its own installation, and that of the one in Flux's place.
var installs = []string{"notification-system", "flux-system"}

const (
	// installed selects notifier's Pods, portName is the name of their port for the API.
	installed = "app.kubernetes.io/name=notifier"
	portName  = "http-api"
)

// forward opens a port of this machine that leads to notifier's API through the API server. It returns the address, and a function
// that closes the port.
func forward(ctx context.Context, kube *rest.Config, namespace string) (address string, done func(), err error) {
	core, err := builtin.NewClient(kube, corev1.SchemeGroupVersion)
	if err != nil {
		return "", nil, fmt.Errorf("kubeconfig: %w", err)
	}
	candidates := installs
	if namespace != "" {
		candidates = []string{namespace}
	}
	pod, port, err := findPod(ctx, core, candidates)
	if err != nil {
		return "", nil, err
	}
	target := core.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(kube)
	if err != nil {
		return "", nil, fmt.Errorf("port-forward: %w", err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, fmt.Errorf("port-forward: %w", err)
	}
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, fmt.Errorf("port-forward to Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case <-ctx.Done():
		close(stop)
		return "", nil, ctx.Err()
	}
	ports, err := f.GetPorts()
	if err != nil {
		close(stop)
		return "", nil, fmt.Errorf("port-forward: %w", err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local), func() { close(stop) }, nil
}

// findPod returns a ready Pod of notifier that serves the API, and the API's port.
func findPod(ctx context.Context, core rest.Interface, namespaces []string) (*corev1.Pod, int32, error) {
	var refused []string
	for _, namespace := range namespaces {
		pods := &corev1.PodList{}
		err := core.Get().Namespace(namespace).Resource("pods").Param("labelSelector", installed).Do(ctx).Into(pods)
		if apierrors.IsForbidden(err) {
			refused = append(refused, namespace) // perhaps notifier is in another
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("look for notifier: %w", err)
		}
		for i := range pods.Items {
			if port := apiPort(&pods.Items[i]); port != 0 && ready(&pods.Items[i]) {
				return &pods.Items[i], port, nil
			}
		}
	}
	if len(refused) > 0 {
		return nil, 0, fmt.Errorf("you may not list Pods in namespace %s, so there is no port-forward to notifier there; "+
			"name its namespace with --install-namespace if it is another", strings.Join(refused, ", "))
	}
	return nil, 0, fmt.Errorf("there is no ready Pod of notifier with the API (--api-addr) in namespaces %v", namespaces)
}

func apiPort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == portName {
				return p.ContainerPort
			}
		}
	}
	return 0
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

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

// findPod returns a ready Pod of notifier that serves the API, and the API's port. Of several namespaces one alone may be notifier's:
// the Pod gets the caller's token, and anybody who may make a namespace of such a name can put a Pod into it.
func findPod(ctx context.Context, core rest.Interface, namespaces []string) (pod *corev1.Pod, port int32, err error) {
	var possible, refused []string
	for _, namespace := range namespaces {
		pods := &corev1.PodList{}
		err := core.Get().Namespace(namespace).Resource("pods").Param("labelSelector", installed).Do(ctx).Into(pods)
		if apierrors.IsForbidden(err) {
			refused, possible = append(refused, namespace), append(possible, namespace)
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("look for notifier: %w", err)
		}
		if len(pods.Items) > 0 {
			possible = append(possible, namespace)
		}
		for i := range pods.Items {
			if p := apiPort(&pods.Items[i]); p != 0 && ready(&pods.Items[i]) && pod == nil {
				pod, port = &pods.Items[i], p
			}
		}
	}
	switch {
	case pod != nil && len(possible) == 1:
		return pod, port, nil
	case pod != nil:
		return nil, 0, fmt.Errorf("notifier may be in namespace %s, and your token is not sent to the wrong one: name its namespace with "+
			"--install-namespace", strings.Join(possible, " or "))
	case len(refused) > 0:
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

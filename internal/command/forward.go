package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// that closes the port. It calls lost when the port is closed for another reason. From then on any program of this machine may have the port.
func forward(ctx context.Context, kube *rest.Config, namespace string, lost func(error)) (address string, done func(), err error) {
	core, err := builtin.NewClient(kube, corev1.SchemeGroupVersion)
	if err != nil {
		return "", nil, fmt.Errorf("kubeconfig: %w", err)
	}
	pod, port, err := findPod(ctx, kube, core, namespace)
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
	go func() {
		err := f.ForwardPorts()
		if err != nil {
			err = fmt.Errorf("port-forward to Pod %s/%s: %w", pod.Namespace, pod.Name, err)
			lost(err)
		}
		ended <- err
	}()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, err
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

// findPod returns a ready Pod of notifier that serves the API, and the API's port. The Pod is sent the caller's token, and anybody who may make
// a namespace of a name in installs can put a Pod into it. So in a namespace that the caller has not named the Pod must have notifier's rights.
func findPod(ctx context.Context, kube *rest.Config, core rest.Interface, named string) (pod *corev1.Pod, port int32, err error) {
	namespaces := installs
	if named != "" {
		namespaces = []string{named}
	}
	var refused []string
	var strange *corev1.Pod
	for _, namespace := range namespaces {
		pods := &corev1.PodList{}
		err := core.Get().Namespace(namespace).Resource("pods").Param("labelSelector", installed).Do(ctx).Into(pods)
		if apierrors.IsForbidden(err) {
			refused = append(refused, namespace)
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("look for notifier: %w", err)
		}
		for i := range pods.Items {
			switch pod, port := &pods.Items[i], apiPort(&pods.Items[i]); {
			case port == 0 || !ready(pod):
			case named != "" || hasRights(ctx, kube, pod):
				return pod, port, nil
			default:
				strange = pod
			}
		}
	}
	switch {
	case strange != nil:
		return nil, 0, fmt.Errorf("your token is not sent to Pod %s/%s: its service account lacks notifier's rights, or you may not ask for them; "+
			"name notifier's namespace with --install-namespace", strange.Namespace, strange.Name)
	case len(refused) > 0:
		return nil, 0, fmt.Errorf("you may not list Pods in namespace %s, so there is no port-forward to notifier there; "+
			"name its namespace with --install-namespace if it is another", strings.Join(refused, ", "))
	}
	return nil, 0, fmt.Errorf("there is no ready Pod of notifier with the API (--api-addr) in namespaces %v", namespaces)
}

// notifiersRight is a right of notifier's account in all namespaces. Whoever can give it to an account has power over notifier.
var notifiersRight = authorizationv1.ResourceAttributes{
	Group: "notification.toolkit.fluxcd.io", Resource: "receivers", Subresource: "status", Verb: "update",
}

// hasRights reports whether a Pod's service account has notifiersRight. It is false for a caller who may not ask for that.
func hasRights(ctx context.Context, kube *rest.Config, pod *corev1.Pod) bool {
	authorization, err := builtin.NewClient(kube, authorizationv1.SchemeGroupVersion)
	if err != nil {
		return false
	}
	review, err := builtin.In[authorizationv1.SubjectAccessReview](authorization, "subjectaccessreviews", "").Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName, ResourceAttributes: &notifiersRight,
		}}, metav1.CreateOptions{})
	return err == nil && review.Status.Allowed
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

// ready reports whether a Pod is ready and goes on: one that is deleted is ready for some seconds more.
func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

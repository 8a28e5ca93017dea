package install

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"notifier/test/env"
)

// fluxLabels are the labels by which flux check, flux logs, flux version and flux uninstall select, and the one that
// distinguishes ours from Flux's.
var fluxLabels = labels.SelectorFromSet(labels.Set{
	"app.kubernetes.io/part-of": "flux", "app.kubernetes.io/component": "notification-controller", "app.kubernetes.io/instance": "flux-system",
	"app.kubernetes.io/name": "notifier",
})

// Fails when an object of config/flux lacks one of Flux's labels, or when the component gives them to Flux's own
// objects. Fails also when the Pods lack the annotations for Prometheus or the labels for flux logs.
func TestFluxsToolsFindTheInstallation(t *testing.T) {
	s := setUp(t)
	ours, err := manifests("flux")
	s.Must(err)
	for name, text := range map[string]string{"config/flux": ours, "config/flux/component": s.fluxFromGit("", "flux/component")} {
		objects, err := env.Decode(text)
		s.Must(err)
		labelled := 0
		for _, obj := range objects {
			set := labels.Set(obj.GetLabels())
			if !fluxLabels.Matches(set) || set["app.kubernetes.io/version"] == "" {
				if name == "config/flux" {
					t.Errorf("%s: %s %s is labelled %v", name, obj.GetKind(), obj.GetName(), set)
				}
				continue
			}
			labelled++
			if obj.GetName() == "crd-controller-flux-system" || obj.GetName() == "allow-webhooks" {
				t.Errorf("%s: %s %s is Flux's and labelled as ours", name, obj.GetKind(), obj.GetName())
			}
			if obj.GetKind() == "Deployment" {
				s.podIsFound(obj)
			}
		}
		if want := len(s.identities(ours)); labelled != want {
			t.Errorf("%s: %d objects are ours, want %d", name, labelled, want)
		}
	}
}

// podIsFound checks the labels and annotations of a Deployment's Pods. flux logs looks for Pods with all labels of the
// template.
func (s *fixture) podIsFound(deployment *unstructured.Unstructured) {
	s.Helper()
	template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
	s.Must(err)
	var pod corev1.Pod
	s.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod))
	if !fluxLabels.Matches(labels.Set(pod.Labels)) || pod.Labels["app"] != "notification-controller" {
		s.Errorf("the Pods are labelled %v", pod.Labels)
	}
	port := pod.Annotations["prometheus.io/port"]
	if pod.Annotations["prometheus.io/scrape"] != "true" || !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return p.Name == "http-prom" && port == "8080" && p.ContainerPort == 8080
	}) {
		s.Errorf("the Pods are annotated %v", pod.Annotations)
	}
}

package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/test/env"
)

// Alerts and Providers of the version that Flux has since 2.10, and of the one before. Fails when one of them is not served or not acted on,
// when a field of the one is lost to readers of the other, and when the process logs at each request that a version is deprecated.
func TestAlertsAndProvidersOfBothVersionsAreServed(t *testing.T) {
	s := setUp(t)
	n := s.process()
	s.Notifier = n
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	for _, version := range []string{"v1", "v1beta3"} {
		sink := s.NewSink()
		s.Must(s.Tenant.Apply(s.Ctx, strings.NewReplacer("$VERSION", version, "$ADDRESS", sink.URL("/")).Replace(`
{"apiVersion":"notification.toolkit.fluxcd.io/$VERSION","kind":"Provider","metadata":{"name":"$VERSION","namespace":"$NS"},
 "spec":{"type":"generic","address":"$ADDRESS","interval":"1m"}}
---
{"apiVersion":"notification.toolkit.fluxcd.io/$VERSION","kind":"Alert","metadata":{"name":"$VERSION","namespace":"$NS"},
 "spec":{"providerRef":{"name":"$VERSION"},"eventSources":[{"kind":"Kustomization","name":"*"}],"summary":"by $VERSION"}}`)))
		s.Condition(s.Tenant, "Alert", version, "Ready", metav1.ConditionTrue, "")
		s.Condition(s.Tenant, "Provider", version, "Ready", metav1.ConditionTrue, "")
		s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "no such file "+version, "main@sha1:1")
		_, err := sink.Wait(s.Ctx, func(all []env.Received) bool {
			return len(all) > 0 && strings.Contains(string(all[0].Body), "by "+version)
		})
		s.Must(err)
		for _, plural := range []string{"alerts", "providers"} {
			now, before := s.served(plural, "v1", version), s.served(plural, "v1beta3", version)
			if diff := cmp.Diff(now.Object["spec"], before.Object["spec"]); diff != "" {
				t.Errorf("%s (-v1 +v1beta3):\n%s", plural, diff)
			}
		}
	}
	if strings.Contains(n.Logs(), "deprecated") {
		t.Error("the process logs that a version is deprecated")
	}
}

// served returns an object as one version serves it.
func (s *fixture) served(plural, version, name string) *unstructured.Unstructured {
	s.Helper()
	resource := schema.GroupVersionResource{Group: "notification.toolkit.fluxcd.io", Version: version, Resource: plural}
	obj, err := s.System.Dynamic.Resource(resource).Namespace(s.Tenant.Namespace).Get(s.Ctx, name, metav1.GetOptions{})
	s.Must(err)
	return obj
}

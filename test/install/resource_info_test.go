package install

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"notifier/test/env"
)

// stateMetrics is the part of kube-state-metrics' configuration that config/monitoring uses.
type stateMetrics struct {
	Kind string `json:"kind"`
	Spec struct {
		Resources []struct {
			GroupVersionKind schema.GroupVersionKind `json:"groupVersionKind"`
			MetricNamePrefix string                  `json:"metricNamePrefix"`
			Metrics          []struct {
				Name string `json:"name"`
				Help string `json:"help"`
				Each struct {
					Type string `json:"type"`
					Info struct {
						LabelsFromPath map[string][]string `json:"labelsFromPath"`
					} `json:"info"`
				} `json:"each"`
				LabelsFromPath map[string][]string `json:"labelsFromPath"`
			} `json:"metrics"`
		} `json:"resources"`
	} `json:"spec"`
}

// at follows a path as kube-state-metrics does: a field, or the entry of a list that "[key=value]" selects.
func at(value any, path []string) (string, bool) {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			key, want, _ := strings.Cut(strings.Trim(step, "[]"), "=")
			i := slices.IndexFunc(v, func(entry any) bool { return entry.(map[string]any)[key] == want })
			if i < 0 {
				return "", false
			}
			value = v[i]
		default:
			return "", false
		}
	}
	return fmt.Sprint(value), value != nil
}

// The values that Flux's dashboards and alerts read as gotk_resource_info. Fails when the configuration names a kind, a
// version or a field that objects here do not have. Fails also when it omits a label that Flux's has, or makes a label
// of the webhook path or of any other text.
func TestDashboardsGetTheResourceInfoThatTheyRead(t *testing.T) {
	s := setUp(t)
	root, err := env.ProductDir()
	s.Must(err)
	text, err := os.ReadFile(filepath.Join(root, "config", "monitoring", "custom-resource-state.yaml"))
	s.Must(err)
	var config stateMetrics
	s.Must(yaml.UnmarshalStrict(text, &config))
	s.process()
	s.Must(s.Tenant.SlackAlert(s.Ctx, "app", s.NewSink().URL("/")))
	s.Receiver(s.Tenant, "app", "t", `,"suspend":false`)

	want := map[string]string{"name": "app", "exported_namespace": s.Tenant.Namespace, "ready": "True"}
	seen := map[string]bool{}
	for _, r := range config.Spec.Resources {
		seen[r.GroupVersionKind.Kind] = true
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(r.GroupVersionKind)
		obj.SetName("app")
		obj.SetNamespace(s.Tenant.Namespace)
		s.Condition(s.Tenant, r.GroupVersionKind.Kind, "app", "Ready", metav1.ConditionTrue, "")
		obj, err = s.System.Read(s.Ctx, obj)
		s.Must(err)
		if len(r.Metrics) != 1 || r.MetricNamePrefix+"_"+r.Metrics[0].Name != "gotk_resource_info" {
			t.Fatalf("%s: the metric is not called gotk_resource_info", r.GroupVersionKind)
		}
		paths := maps.Clone(r.Metrics[0].LabelsFromPath)
		maps.Copy(paths, r.Metrics[0].Each.Info.LabelsFromPath)
		for label, value := range want {
			if got, _ := at(obj.Object, paths[label]); got != value {
				t.Errorf("%s: label %s is %q, want %q", r.GroupVersionKind.Kind, label, got, value)
			}
		}
		s.Must(unstructured.SetNestedField(obj.Object, true, "spec", "suspend"))
		if got, _ := at(obj.Object, paths["suspended"]); got != "true" || len(paths) != len(want)+1 {
			t.Errorf("%s: suspended is %q, and the labels are %v", r.GroupVersionKind.Kind, got, paths)
		}
	}
	for _, kind := range []string{"Alert", "Provider", "Receiver"} {
		if !seen[kind] {
			t.Errorf("nothing is told of kind %s", kind)
		}
	}
}

// The panels of Flux's dashboard of the control plane, and the alert on duplicates in Flux's documentation, read these
// metrics from each controller's Pod. Fails when the process lacks one of them, has it under another name, or without
// the selected label.
func TestDashboardsOfTheControlPlaneFindTheProcess(t *testing.T) {
	s := setUp(t)
	n := s.process()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "info", "ReconciliationSucceeded", "applied", "main@sha1:1")
	s.Must(err)
	for range 2 { // the second is a duplicate
		_, err = n.Post(s.Ctx, event)
		s.Must(err)
	}
	for _, m := range [][]string{
		{"gotk_event_http_request_duration_seconds", "code", "202"},
		{"gotk_event_http_request_duration_seconds", "code", "429"},
		{"rest_client_requests_total", "code", "200", "method", "GET"},
		{"go_info"},
		{"go_memstats_alloc_bytes"},
		{"process_cpu_seconds_total"},
	} {
		got, err := n.Metric(s.Ctx, m[0], m[1:]...)
		s.Must(err)
		if got == 0 {
			t.Errorf("%v is not there", m)
		}
	}
}

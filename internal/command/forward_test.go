package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/builtin"
)

// pod returns a Pod of notifier.
func pod(name, port string, ready corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 9090}, {Name: port, ContainerPort: 9595},
		}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// E7. Fails when the port-forward leads to another Pod than a ready one of notifier that serves the API, or to one of a namespace that may
// be somebody else's, or when a caller without the right is told that there is none.
func TestThePortForwardLeadsToAReadyPodWithTheAPI(t *testing.T) {
	pods := map[string][]corev1.Pod{
		"notification-system": {pod("no-api", "other", corev1.ConditionTrue), pod("starts", portName, corev1.ConditionFalse)},
		"empty":               nil,
		"flux-system":         {pod("starts", portName, corev1.ConditionFalse), pod("serves", portName, corev1.ConditionTrue)},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		namespace := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/pods")
		found, known := pods[namespace]
		if !known || r.URL.Query().Get("labelSelector") != installed {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
			return
		}
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: found})
	}))
	defer server.Close()
	core, err := builtin.NewClient(&rest.Config{Host: server.URL}, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespaces := range [][]string{{"flux-system"}, {"empty", "flux-system"}, {"flux-system", "empty"}} {
		if got, port, err := findPod(t.Context(), core, namespaces); err != nil || got.Name != "serves" || port != 9595 {
			t.Errorf("%v: got %v, port %d, %v", namespaces, got, port, err)
		}
	}
	// Whoever made the namespace of one of the names would be sent the token of whoever looks for notifier in both.
	for namespaces, want := range map[string]string{
		"notification-system flux-system": "notification-system or flux-system", "team-a flux-system": "team-a or flux-system",
		"flux-system team-a": "flux-system or team-a",
	} {
		got, _, err := findPod(t.Context(), core, strings.Fields(namespaces))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--install-namespace") {
			t.Errorf("%s: got %v, %v", namespaces, got, err)
		}
	}
	for namespace, want := range map[string]string{"notification-system": "no ready Pod", "team-a": "you may not list Pods in namespace team-a"} {
		if _, _, err := findPod(t.Context(), core, []string{namespace}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

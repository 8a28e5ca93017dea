package kube_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// poisoned matches the CRD's pattern for durations and overflows time.Duration.
const poisoned = `{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"Receiver",
"metadata":{"name":"bad","namespace":"team-b","uid":"u2",
"resourceVersion":"7"},"spec":{"type":"github","interval":"99999999999h"},"status":{"observedGeneration":4}}`

// hurt has a status with a time that the CRD's format admits and Go does not read.
const hurt = `{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"Receiver",
"metadata":{"name":"hurt","namespace":"team-c","uid":"u3"},
"spec":{"type":"github"},"status":{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-02t03:04:05z"}]}}`

const healthy = `{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"Receiver",
"metadata":{"name":"good","namespace":"team-a","uid":"u1",
"resourceVersion":"6"},"spec":{"type":"github","interval":"5m"}}`

func realResource(t *testing.T, handler http.HandlerFunc) kube.Resource[*v1.Receiver] {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections) // which client-go uses for plain HTTP
	api, err := kube.NewAPI(&rest.Config{Host: server.URL}, newScheme(t), v1.GroupVersion, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return kube.NewResource(api, "receivers", func() *v1.Receiver { return &v1.Receiver{} })
}

// A tenant can make an object that does not fit our Go types. Fails, as the list then fails, when the tolerant decoder is left out.
func TestAnObjectThatDoesNotDecodeHarmsNoOther(t *testing.T) {
	resource := realResource(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/notification.toolkit.fluxcd.io/v1/receivers" {
			t.Errorf("path: got %s", r.URL.Path)
		}
		if r.URL.Query().Get("watch") != "" {
			for _, o := range []string{poisoned, hurt, healthy} {
				_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", o)
			}
			return
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"ReceiverList","metadata":{"resourceVersion":"9"},
			"items":[%s,%s,%s]}`, healthy, poisoned, hurt)
	})
	check := func(where string, got *v1.Receiver) {
		t.Helper()
		switch got.Name {
		case "good":
			if kube.IsUndecodable(got) || got.Interval() != 5*time.Minute || got.Spec.Type != "github" {
				t.Errorf("%s: the good object came as %+v", where, got)
			}
		case "bad":
			// The status must stay: without it, each write of it would be a change, and would cause the next.
			if !kube.IsUndecodable(got) || got.UID != "u2" || got.ResourceVersion != "7" ||
				got.Spec.Type != "" || got.Status.ObservedGeneration != 4 {
				t.Errorf("%s: the bad object came as %+v", where, got)
			}
		case "hurt":
			if kube.IsUndecodable(got) || got.Spec.Type != "github" || got.Status.Conditions != nil {
				t.Errorf("%s: the object with a bad status came as %+v", where, got)
			}
		default:
			t.Errorf("%s: unexpected object %q", where, got.Name)
		}
	}
	listed, err := resource.In("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list := listed.(*metav1.List)
	if list.ResourceVersion != "9" || len(list.Items) != 3 {
		t.Fatalf("list: got version %q and %d items", list.ResourceVersion, len(list.Items))
	}
	for i := range list.Items {
		check("list", list.Items[i].Object.(*v1.Receiver))
	}
	w, err := resource.In("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range 3 {
		told := <-w.ResultChan()
		got, ok := told.Object.(*v1.Receiver)
		if !ok {
			t.Fatalf("watch told %#v", told.Object)
		}
		check("watch", got)
	}
}

func TestTheStatusOfAnUndecodableObjectIsWritten(t *testing.T) {
	var body map[string]any
	resource := realResource(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.URL.Path != "/apis/notification.toolkit.fluxcd.io/v1/namespaces/team-b/receivers/bad/status" {
			t.Errorf("got %s %s", r.Method, r.URL.Path)
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(poisoned))
	})
	o := newReceiver("bad")
	o.Namespace, o.Annotations = "team-b", map[string]string{kube.Undecodable: "true"}
	wrote, err := kube.NewStatusWriter(resource).Write(t.Context(), o, func(r *v1.Receiver) { r.Status.ObservedGeneration = 3 })
	if err != nil || !wrote {
		t.Fatalf("got %t, %v", wrote, err)
	}
	if status, _ := body["status"].(map[string]any); status["observedGeneration"] != float64(3) {
		t.Errorf("status sent: %v", body["status"])
	}
}

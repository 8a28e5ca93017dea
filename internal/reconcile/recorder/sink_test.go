package recorder

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/builtin"
)

// Fails when an Event is written to another namespace than its own, or when a patch of its count is not merged.
func TestAnEventIsWrittenToItsNamespace(t *testing.T) {
	var asked, kind, body string
	sink := NewSink(coreClient(t, func(r *http.Request) (any, error) {
		sent, err := io.ReadAll(r.Body)
		asked, kind, body = r.Method+" "+r.URL.String(), r.Header.Get("Content-Type"), string(sent)
		return corev1.Event{Count: 2}, err
	}))
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "chat.1"}, Reason: "DeliveryFailed"}
	for _, tc := range []struct {
		write             func() (*corev1.Event, error)
		asked, kind, body string
	}{
		{
			func() (*corev1.Event, error) { return sink.Create(e) },
			"POST /api/v1/namespaces/team-a/events", "application/json", `"kind":"Event","apiVersion":"v1"`,
		},
		{
			func() (*corev1.Event, error) { return sink.Update(e) },
			"PUT /api/v1/namespaces/team-a/events/chat.1", "application/json", `"reason":"DeliveryFailed"`,
		},
		{
			func() (*corev1.Event, error) { return sink.Patch(e, []byte(`{"count":2}`)) },
			"PATCH /api/v1/namespaces/team-a/events/chat.1", "application/strategic-merge-patch+json", `{"count":2}`,
		},
	} {
		got, err := tc.write()
		if err != nil || got.Count != 2 {
			t.Errorf("%s: got %+v, %v", tc.asked, got, err)
		}
		if asked != tc.asked || kind != tc.kind || !strings.Contains(body, tc.body) {
			t.Errorf("got %s, %s %s, want %s, %s with %s", asked, kind, body, tc.asked, tc.kind, tc.body)
		}
	}
}

// coreClient returns a client of the core API of an API server that sends the answers of a function. The test fails on an error of it.
func coreClient(t *testing.T, answer func(*http.Request) (any, error)) rest.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object, err := answer(r)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(server.Close)
	core, err := builtin.NewClient(&rest.Config{Host: server.URL, QPS: -1}, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

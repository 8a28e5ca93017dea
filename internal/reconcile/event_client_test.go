package reconcile

import (
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fails when an Event is written to another namespace than its own, or when a patch of its count is not merged.
func TestAnEventIsWrittenToItsNamespace(t *testing.T) {
	var asked, kind, body string
	sink := NewEvents(coreClient(t, func(r *http.Request) (any, error) {
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

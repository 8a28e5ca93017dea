package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
			func() (*corev1.Event, error) { return sink.Create(t.Context(), e) },
			"POST /api/v1/namespaces/team-a/events", "application/json", `"kind":"Event","apiVersion":"v1"`,
		},
		{
			func() (*corev1.Event, error) { return sink.Patch(t.Context(), e, []byte(`{"count":2}`)) },
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

// hanging is a transport that does not answer its first request, and takes every other one.
type hanging struct{ asked, written atomic.Int32 }

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.asked.Add(1) == 1 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	h.written.Add(1)
	body, err := json.Marshal(corev1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}})
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

// Fails when an API server that does not answer one write has no further Event of anybody written.
func TestAWriteWithoutAnAnswerHoldsUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &hanging{}
		core, err := builtin.NewClient(&rest.Config{Host: "http://kubernetes", Transport: server, QPS: -1}, corev1.SchemeGroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		r := New(NewSink(core), discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		for _, namespace := range []string{"team-a", "team-b"} {
			r.Event("Alert", namespace, "all", "u", "Warning", "DeliveryFailed", "failed")
		}
		pass(time.Minute)
		cancel()
		wg.Wait()
		if n := server.written.Load(); n != 2 {
			t.Errorf("%d of 2 Events are written", n)
		}
	})
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

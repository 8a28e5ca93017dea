package kube_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// restorable is an API server of one Receiver. It is away while it has no version, and takes up a watch from any version that it has not reached,
// as the real one does.
type restorable struct {
	mu sync.Mutex
	// version is that of the store, object that of the Receiver.
	version, object int
	// stop ends the watches of the present version.
	stop chan struct{}
	// changed sends a version of the Receiver to a watch. asked is closed by the first request while the server is away.
	changed chan int
	asked   chan struct{}
	once    sync.Once
}

func receiverOf(version int) string {
	return fmt.Sprintf(`{"kind":"Receiver","apiVersion":%q,"metadata":{"namespace":"team-a","name":"r0","uid":"u","resourceVersion":"%d"}}`,
		v1.GroupVersion, version)
}

func (s *restorable) set(version, object int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.stop)
	s.version, s.object, s.stop = version, object, make(chan struct{})
}

func (s *restorable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	version, object, stop := s.version, s.object, s.stop
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	switch {
	case version == 0:
		s.once.Do(func() { close(s.asked) })
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r, stop)
	case from > version:
		w.WriteHeader(http.StatusGatewayTimeout)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,
			"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}}`)
	default:
		fmt.Fprintf(w, `{"kind":"ReceiverList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[%s]}`, v1.GroupVersion, version,
			receiverOf(object))
	}
}

func (s *restorable) watch(w http.ResponseWriter, r *http.Request, stop <-chan struct{}) {
	for {
		w.(http.Flusher).Flush()
		select {
		case version := <-s.changed:
			fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`, receiverOf(version))
		case <-stop:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// Fails when an informer goes on with its watch after the API server's store was restored from a backup: the API server takes up a watch from a
// version that it has not reached, and sends nothing until it has, perhaps for days.
func TestAnInformerListsAnewAfterARestoreOfTheCluster(t *testing.T) {
	api := &restorable{version: 8, object: 8, changed: make(chan int), stop: make(chan struct{}), asked: make(chan struct{})}
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := kube.NewAPI(&rest.Config{Host: server.URL}, newScheme(t), v1.GroupVersion, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	i := kube.NewInformer(kube.NewResource(client, "receivers", func() *v1.Receiver { return &v1.Receiver{} }), "", nil, discard())
	defer runInformer(t, i)()
	has := func(version string) {
		t.Helper()
		late := time.After(20 * time.Second)
		for {
			r, ok := i.Get(kube.Key{Namespace: "team-a", Name: "r0"})
			if ok && r.ResourceVersion == version {
				return
			}
			select {
			case <-late:
				t.Fatalf("version %s is cached: %v, want %s", r.GetResourceVersion(), ok, version)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	has("8")
	api.changed <- 9 // a watch without events that is short is listed anew in any case
	has("9")
	api.set(0, 0)
	<-api.asked
	api.set(6, 5)
	has("5")
}

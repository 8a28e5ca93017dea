package watch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// serverAt returns a Server of the API server at an address.
func serverAt(t *testing.T, address string) *Server {
	t.Helper()
	s, err := NewServer(&rest.Config{Host: address}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// repositoryJSON returns a GitRepository; version is also the revision of its artifact.
func repositoryJSON(name, version string) string {
	return fmt.Sprintf(`{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","metadata":{"name":%q,"namespace":"team-a","uid":"u",
		"resourceVersion":%q,"managedFields":[{"manager":"x"}]},"spec":{"url":"x"},"status":{"artifact":{"revision":%[2]q},
		"conditions":[{"type":"Ready","status":"True"}]}}`, name, version)
}

// Fails when a part of a list or a watch is lost or misread, when a malformed object stops the others, or when a too old watch is not
// recognized.
func TestObjectsAreReadAsTheAPIServerSendsThem(t *testing.T) {
	const malformed = `{"metadata":{"name":"odd","namespace":"team-a","resourceVersion":"3"},"status":{"artifact":"none","conditions":{}}}`
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+"?"+r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(w, `{"kind":"GitRepositoryList","metadata":{"resourceVersion":"9"},"items":[%s,%s]}`, repositoryJSON("a", "1"), malformed)
			return
		}
		for _, told := range []struct{ kind, object string }{
			{"ADDED", repositoryJSON("b", "10")},
			{"MODIFIED", malformed},
			{"DELETED", repositoryJSON("b", "12")},
			{"BOOKMARK", `{"kind":"GitRepository","metadata":{"resourceVersion":"13","annotations":{"k8s.io/initial-events-end":"true"}}}`},
			{"ERROR", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`},
		} {
			fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", told.kind, told.object)
		}
	}))
	defer server.Close()
	s := serverAt(t, server.URL)
	resource := kustomizations.GroupVersion().WithResource("gitrepositories")
	lw := cache.ToListerWatcherWithContext(s.ListerWatcher(kindNamed("GitRepository"), resource, "team-a"))
	listed, err := lw.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	list := listed.(*objectList)
	if list.ResourceVersion != "9" || len(list.Items) != 2 || list.Items[0].revision != "1" || list.Items[1].Name != "odd" {
		t.Errorf("listed %+v", list)
	}
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "9"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var got []string
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			if !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("a watch that is too old: %v", e.Object)
			}
			continue
		}
		o := e.Object.(*object)
		got = append(got, fmt.Sprint(e.Type, o.Name, o.ResourceVersion))
		if e.Type == watch.Bookmark && o.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Error("the bookmark that ends the first events is not known")
		}
	}
	if want := []string{"ADDEDb10", "MODIFIEDodd3", "DELETEDb12", "BOOKMARK13"}; !slices.Equal(got, want) {
		t.Errorf("watched %v, want %v", got, want)
	}
	path := "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/team-a/gitrepositories?"
	if len(asked) != 2 || !strings.HasPrefix(asked[0], path) || !strings.HasPrefix(asked[1], path) || !strings.Contains(asked[1], "resourceVersion=9") {
		t.Errorf("asked for %q", asked)
	}
}

// Fails when whole definitions are asked for: a large cluster's have tens of megabytes.
func TestOnlyTheMetadataOfDefinitionsIsAskedFor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const metadata = `"metadata":{"name":"kustomizations.kustomize.toolkit.fluxcd.io","uid":"u","resourceVersion":"3"}`
		accept, is := r.Header.Get("Accept"), "as=PartialObjectMetadataList;"
		if r.URL.Query().Get("watch") != "" {
			is = "as=PartialObjectMetadata;"
		}
		if r.URL.Path != "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" || !strings.Contains(accept, is) {
			t.Errorf("%s was asked for as %s", r.URL, accept)
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},"items":[{`+metadata+`}]}`)
			return
		}
		fmt.Fprint(w, `{"type":"MODIFIED","object":{"kind":"PartialObjectMetadata",`+metadata+`}}`)
	}))
	defer server.Close()
	s := serverAt(t, server.URL)
	lw := cache.ToListerWatcherWithContext(s.ListerWatcher(definitions, crdResource, ""))
	listed, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if list := listed.(*objectList); len(list.Items) != 1 || list.Items[0].Name != kindNamed("Kustomization").crd() || list.Items[0].UID != "u" {
		t.Errorf("listed %+v", list)
	}
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "9"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Modified || e.Object.(*object).ResourceVersion != "3" {
		t.Errorf("watched %+v", e)
	}
}

// Fails when a request follows the Retry-After of an API server that has started and reads the kind from etcd: up to half a minute
// beyond the end of that.
func TestAKindThatTheAPIServerIsReadingIsAskedForAgainSoon(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%2 == 1 {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = fmt.Fprint(w, `{"kind":"GitRepositoryList","metadata":{"resourceVersion":"9"},"items":[]}`)
	}))
	defer server.Close()
	s := serverAt(t, server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resource := kustomizations.GroupVersion().WithResource("gitrepositories")
	lw := cache.ToListerWatcherWithContext(s.ListerWatcher(kindNamed("GitRepository"), resource, ""))
	if _, err := lw.ListWithContext(ctx, metav1.ListOptions{ResourceVersion: "7"}); err != nil || asked.Load() != 2 {
		t.Errorf("list: asked %d times within 10 s: %v", asked.Load(), err)
	}
	w, err := lw.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: "9"})
	if err != nil || asked.Load() != 4 {
		t.Fatalf("watch: asked %d times within 10 s: %v", asked.Load(), err)
	}
	w.Stop()
}

// Fails when a list of a version that the API server has not reached, as after a restore of its store from a backup, waits for that version: the
// informer asks for the present one once it is told.
func TestAListOfAVersionThatIsTooNewIsAnswered(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGatewayTimeout)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 9, current: 7",
			"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},
			"code":504}`)
	}))
	defer server.Close()
	s := serverAt(t, server.URL)
	lw := cache.ToListerWatcherWithContext(s.ListerWatcher(kindNamed("Kustomization"), kustomizations, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := lw.ListWithContext(ctx, metav1.ListOptions{ResourceVersion: "9"})
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || asked.Load() != 1 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

// Fails when a watch goes on from its version after the API server was away: if its store was restored from a backup meanwhile, it sends nothing
// until it has reached that version again. The informer lists anew upon the error.
func TestAWatchDoesNotGoOnAfterTheAPIServerWasAway(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	s := serverAt(t, server.URL)
	lw := cache.ToListerWatcherWithContext(s.ListerWatcher(kindNamed("Kustomization"), kustomizations, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := lw.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: "9"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v", err)
	}
}

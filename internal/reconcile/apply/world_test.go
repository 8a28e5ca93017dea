package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// world is an API server, a bus, Receivers and an applier, in the bubble of one test.
type world struct {
	t         *testing.T
	api       *fakeAPI
	bus       *fakeBus
	receivers *fakeReceivers
	selector  fakeSelector
	reports   *fakeReports
	compiled  chan struct{}
	applier   *Applier
	opts      Options
	stop      func()
}

// newWorld returns a world with a running applier whose first interval is over.
func newWorld(t *testing.T, adjust ...func(*Options)) *world {
	t.Helper()
	w := &world{
		t: t, api: &fakeAPI{}, bus: &fakeBus{in: make(chan event.Message[event.Trigger])},
		receivers: &fakeReceivers{}, selector: fakeSelector{}, reports: &fakeReports{values: map[string][]byte{}},
		compiled: make(chan struct{}),
	}
	client, err := NewClient(&rest.Config{Host: "http://api.test", Transport: w.api})
	w.must(err)
	w.opts = Options{
		Bus: w.bus, Receivers: w.receivers, Compiled: w.compiled, Selector: w.selector, Catalogue: kube.NewCatalogue(w.api), Client: client,
		Reports: w.reports, Interval: time.Second, QPS: 100, Burst: 200, ReviewInterval: 5 * time.Minute,
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
	for _, f := range adjust {
		f(&w.opts)
	}
	w.applier, err = New(w.opts)
	w.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.applier.Run(ctx) }()
	var catalogue sync.WaitGroup
	asks, stopAsking := context.WithCancel(t.Context())
	catalogue.Go(func() {
		if err := w.opts.Catalogue.Run(asks); err != nil {
			t.Error(err)
		}
	})
	w.stop = sync.OnceFunc(func() {
		cancel()
		defer catalogue.Wait()
		defer stopAsking()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	close(w.compiled)
	pass(2 * time.Second)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// pass advances the bubble's clock by d and waits until all goroutines are idle.
func pass(d time.Duration) {
	<-time.After(d) // in the bubble of the test: no real time passes
	synctest.Wait()
}

func repo(name string) event.Target {
	return event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: name}
}

func selecting(key, value string) event.Target {
	target := repo("*")
	target.MatchLabels = map[string]string{key: value}
	return target
}

// receiver adds a live Receiver, created a day ago, with the UID "uid-<name>".
func (w *world) receiver(namespace, name, account string, targets ...event.Target) Receiver {
	r := Receiver{
		Namespace: namespace, Name: name, UID: "uid-" + name, Created: time.Now().Add(-24 * time.Hour),
		ServiceAccount: account, Targets: targets,
	}
	w.receivers.put(r)
	return r
}

// trigger returns the trigger that a webhook of the Receiver publishes now.
func trigger(r Receiver, target event.Target) event.Trigger {
	return event.Trigger{
		Namespace: r.Namespace, Receiver: r.Name, ReceiverUID: r.UID, Target: target,
		Key: event.TargetKey(target, r.ServiceAccount), Accepted: time.Now(),
	}
}

// send puts a trigger on the bus and returns the record of its message.
func (w *world) send(t event.Trigger) *fakeHold {
	h := &fakeHold{}
	w.bus.in <- event.Message[event.Trigger]{Value: t, Acker: h}
	return h
}

// hook publishes a webhook for the Receiver's first target.
func (w *world) hook(r Receiver) *fakeHold {
	return w.send(trigger(r, r.Targets[0]))
}

func (w *world) health(receiver string) Health {
	w.t.Helper()
	var h Health
	if value := w.reports.get(healthPrefix + receiver); value != nil {
		w.must(json.Unmarshal(value, &h))
	}
	return h
}

// patch is one request as the API server saw it.
type patch struct {
	at                          time.Time
	user, path, stamp, manager  string
	contentType, impersonations string
}

func (p patch) object() string { return p.path[strings.LastIndex(p.path, "/")+1:] }

// fakeAPI is an API server that answers patches as set by respond, with 200 by default.
type fakeAPI struct {
	mu      sync.Mutex
	patches []patch
	answer  func(patch) (code int, header http.Header)
	delay   time.Duration
	err     error
	asked   int
	// discovery, if any, answers discovery requests. more are the kinds that All has beside GitRepository.
	discovery func(ctx context.Context) error
	more      []apidiscovery.APIGroupDiscovery
}

func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	p := patch{
		at: time.Now(), user: r.Header.Get("Impersonate-User"), path: r.URL.EscapedPath(),
		stamp: doc.Metadata.Annotations[requestedAt], manager: r.URL.Query().Get("fieldManager"), contentType: r.Header.Get("Content-Type"),
	}
	for header := range r.Header {
		if strings.HasPrefix(header, "Impersonate-") && header != "Impersonate-User" {
			p.impersonations += header
		}
	}
	f.mu.Lock()
	f.patches = append(f.patches, p)
	answer, delay, failure := f.answer, f.delay, f.err
	f.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if failure != nil {
		return nil, failure
	}
	code, header := http.StatusOK, http.Header(nil)
	if answer != nil {
		code, header = answer(p)
	}
	if header == nil {
		header = http.Header{}
	}
	if header.Get("Content-Type") == "text/plain" {
		return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader("404 page not found\n")), Request: r}, nil
	}
	header.Set("Content-Type", "application/json")
	status, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code),
		Message: fmt.Sprintf("%s: cannot patch %s", p.user, p.object()), Reason: "Test",
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(string(status))), Request: r}, nil
}

func (f *fakeAPI) respond(answer func(patch) (int, http.Header)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func always(code int) func(patch) (int, http.Header) {
	return func(patch) (int, http.Header) { return code, nil }
}

func (f *fakeAPI) seen() []patch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.patches)
}

// questions returns the number of discovery requests.
func (f *fakeAPI) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// All serves GitRepository, ConfigMap, the cluster-scoped Tenant, and the kinds that the test puts into more.
func (f *fakeAPI) All(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error) {
	f.mu.Lock()
	f.asked++
	discovery := f.discovery
	f.mu.Unlock()
	if discovery != nil {
		if err := discovery(ctx); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]apidiscovery.APIGroupDiscovery{
		group("", serves("v1", "ConfigMap")),
		group("source.toolkit.fluxcd.io", serves("v1", "GitRepository"), cluster(serves("v1", "Tenant"))),
	}, f.more...), nil
}

func group(name string, versions ...apidiscovery.APIVersionDiscovery) apidiscovery.APIGroupDiscovery {
	return apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}, Versions: versions}
}

// serves returns a version with namespaced kinds that can be patched.
func serves(version string, kinds ...string) apidiscovery.APIVersionDiscovery {
	v := apidiscovery.APIVersionDiscovery{Version: version}
	for _, kind := range kinds {
		plural := strings.ToLower(kind) + "s"
		if kind == "GitRepository" {
			plural = "gitrepositories"
		}
		v.Resources = append(v.Resources, apidiscovery.APIResourceDiscovery{
			Resource: plural, ResponseKind: &metav1.GroupVersionKind{Kind: kind}, Scope: apidiscovery.ScopeNamespace,
			Verbs: []string{"get", "patch"},
		})
	}
	return v
}

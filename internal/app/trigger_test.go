package app

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/bus"
	"notifier/internal/event"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
)

// cluster is an API server with the last stamp of each object, and the Receivers of one namespace.
type cluster struct {
	receivers map[string]apply.Receiver
	arrived   map[string]chan struct{} // by object
	mu        sync.Mutex
	stamps    map[string]time.Time
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var patch struct {
		Metadata struct{ Annotations map[string]time.Time }
	}
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	name := path.Base(r.URL.Path)
	select { // a webhook arrives while the request is in flight
	case c.arrived[name] <- struct{}{}:
	default:
	}
	<-time.After(50 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stamp := range patch.Metadata.Annotations {
		if stamp.After(c.stamps[name]) {
			c.stamps[name] = stamp
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

func (c *cluster) stamp(object string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stamps[object]
}

func (*cluster) All(context.Context) ([]apidiscovery.APIGroupDiscovery, error) {
	return []apidiscovery.APIGroupDiscovery{{
		ObjectMeta: metav1.ObjectMeta{Name: "source.toolkit.fluxcd.io"},
		Versions: []apidiscovery.APIVersionDiscovery{{Version: "v1", Resources: []apidiscovery.APIResourceDiscovery{{
			Resource: "gitrepositories", ResponseKind: &metav1.GroupVersionKind{Kind: "GitRepository"}, Scope: apidiscovery.ScopeNamespace,
		}}}},
	}}, nil
}

func (*cluster) Select(string, event.Target) ([]string, bool) { return nil, true }
func (*cluster) Pending(string) bool                          { return false }

func (*cluster) Selects(string, event.Target, string) (selected, watched bool) { return false, true }
func (*cluster) Put(context.Context, string, []byte) error                     { return nil }
func (*cluster) Watch(ctx context.Context, _ func(key string, value []byte)) error {
	<-ctx.Done()
	return nil
}

func (c *cluster) Live(_, name string) (r apply.Receiver, live bool) {
	r, live = c.receivers[name]
	return
}
func (*cluster) Uncompiled(_, _, _ string) bool              { return false }
func (*cluster) Namespaces() []string                        { return nil }
func (*cluster) Follow(func(namespace, name string))         {}
func (c *cluster) InNamespace(string) (all []apply.Receiver) { return nil }

// T4, with the real bus and applier: while a request is in flight, a trigger arrives that was accepted before it, and then a webhook that
// may be coalesced with that trigger. Fails when the late webhook is coalesced into the request in flight.
func TestT4WebhooksThatCoincideEachGetARequest(t *testing.T) {
	const objects, bursts, longest = 40, 10, 3 * time.Second
	c := &cluster{receivers: map[string]apply.Receiver{}, arrived: map[string]chan struct{}{}, stamps: map[string]time.Time{}}
	server := httptest.NewServer(c)
	defer server.Close()
	b, err := bus.Open(t.Context(), bus.Options{DataDir: t.TempDir(), Log: discard, Registerer: prometheus.NewRegistry(), Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	client, err := apply.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	compiled := make(chan struct{})
	close(compiled)
	catalogue := kube.NewCatalogue(c)
	applier, err := apply.New(apply.Options{
		Bus: b, Receivers: c, Compiled: compiled, Selector: c, Catalogue: catalogue, Client: client, Reports: c,
		Interval: 20 * time.Millisecond, QPS: 1e4, Burst: 200, ReviewInterval: time.Hour, Workers: objects, Log: discard, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	target := func(object int) event.Target {
		return event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: fmt.Sprint("app-", object)}
	}
	for i := range objects {
		c.arrived[target(i).Name] = make(chan struct{}, 1)
	}
	for _, name := range []string{"one", "two"} {
		r := apply.Receiver{Namespace: "team-a", Name: name, UID: "uid-" + name, Created: time.Unix(0, 0), ServiceAccount: "deployer"}
		for i := range objects {
			r.Targets = append(r.Targets, target(i))
		}
		c.receivers[name] = r.Indexed()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{b.Run, catalogue.Run, applier.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var senders sync.WaitGroup
	for i := range objects {
		senders.Go(func() {
			for range bursts {
				publish := func(name string, accepted time.Time) {
					if err := b.PublishTriggers(ctx, event.Trigger{
						Namespace: "team-a", Receiver: name, ReceiverUID: "uid-" + name, Target: target(i),
						Key: event.TargetKey(target(i), "deployer"), Accepted: accepted,
					}); err != nil {
						t.Error(err)
					}
				}
				select {
				case <-c.arrived[target(i).Name]: // of the burst before
				default:
				}
				first := time.Now()
				publish("one", first)
				<-c.arrived[target(i).Name]
				publish("two", first.Add(-time.Millisecond))
				<-time.After(rand.N(time.Millisecond)) // the sender's own pace
				last := time.Now()
				publish("two", last)
				object, end := target(i).Name, time.After(longest)
				for tick := time.NewTicker(5 * time.Millisecond); c.stamp(object).Before(last); {
					select {
					case <-tick.C:
						continue
					case <-end:
						t.Errorf("%s: a webhook of %v, and the last request is stamped %v", object, last, c.stamp(object))
						return
					}
				}
			}
		})
	}
	senders.Wait()
	cancel()
	running.Wait()
	ctx, cancel = context.WithTimeout(t.Context(), longest)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

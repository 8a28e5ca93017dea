package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
)

const (
	namespaces            = 10
	receiversPerNamespace = 5 // 50 Receivers, each with a GitRepository of its own
	providersPerNamespace = 2 // 20 Providers
	objectsPerProvider    = 4 // Kustomizations whose events each of them gets
	// leastPerSecond is the least number of each to be accepted while the notifier is up; senders offer more, since
	// answers take time.
	leastPerSecond   = 200
	offeredPerSecond = 300
	webhookToken     = "load"
	// retryPause is a sender's wait after an event was not accepted, so that senders leave the processors to the
	// restart.
	retryPause = 200 * time.Millisecond
)

// load sends webhooks and events to a fleet at a fixed rate and records the accepted ones.
type load struct {
	t     *testing.T
	fleet []*env.Notifier
	// perSecond is the number of offered webhooks a second, and of offered events.
	perSecond int
	sink      *env.Sink
	targets   []*target
	objects   []*object

	webhooks, events, refused atomic.Int64
	up                        uptime
	onAccept                  func() // called after each acceptance
}

// target is a Receiver and the object that it names.
type target struct {
	tenant *env.Tenant
	name   string
	path   string

	mu       sync.Mutex
	accepted int
	lastSent time.Time // when the last accepted webhook was sent: no later than its acceptance
}

// object is a Kustomization and the Provider of its events. Its events are sent one after the other.
type object struct {
	tenant   *env.Tenant
	name     string
	path     string // of the Provider at the sink
	template map[string]any
	accepted []string // messages, in the order of their acceptance
}

// prefix returns the beginning of the messages of the object's events.
func (o *object) prefix() string { return o.tenant.Namespace + "/" + o.name + " " }

// prepare makes the tenants with their Receivers, Providers and Alerts.
func prepare(ctx context.Context, t *testing.T, w *env.System, sink *env.Sink) *load {
	t.Helper()
	l := &load{t: t, sink: sink, perSecond: offeredPerSecond, onAccept: func() {}}
	var mu sync.Mutex
	var g errgroup.Group
	for range namespaces {
		g.Go(func() error {
			tenant, err := w.Tenant(ctx, "load-")
			if err != nil {
				return err
			}
			var inside errgroup.Group
			for i := range receiversPerNamespace {
				inside.Go(func() error {
					target, err := newTarget(ctx, tenant, fmt.Sprintf("app-%d", i))
					mu.Lock()
					defer mu.Unlock()
					l.targets = append(l.targets, target)
					return err
				})
			}
			for i := range providersPerNamespace {
				inside.Go(func() error {
					objects, err := newObjects(ctx, tenant, fmt.Sprintf("app-%d", i), sink)
					mu.Lock()
					defer mu.Unlock()
					l.objects = append(l.objects, objects...)
					return err
				})
			}
			return inside.Wait()
		})
	}
	must(t, g.Wait())
	return l
}

func newTarget(ctx context.Context, tenant *env.Tenant, name string) (*target, error) {
	path, err := tenant.GitHubReceiver(ctx, name, name, webhookToken, "")
	return &target{tenant: tenant, name: name, path: path}, err
}

// newObjects makes a Provider, the Kustomizations of its events, and the Alert between them.
func newObjects(ctx context.Context, tenant *env.Tenant, provider string, sink *env.Sink) ([]*object, error) {
	objects := make([]*object, objectsPerProvider)
	sources := make([]string, objectsPerProvider)
	path := "/" + tenant.Namespace + "/" + provider
	for i := range objects {
		o := &object{tenant: tenant, name: fmt.Sprintf("%s-%d", provider, i), path: path}
		if err := tenant.Object(ctx, "Kustomization", o.name, nil, ""); err != nil {
			return nil, err
		}
		var err error
		o.template, err = tenant.Event(ctx, "Kustomization", o.name, "info", "ReconciliationSucceeded", "", "main@sha1:1")
		if err != nil {
			return nil, err
		}
		objects[i], sources[i] = o, `{"kind":"Kustomization","name":"`+o.name+`"}`
	}
	return objects, tenant.Alert(ctx, provider, "generic", sink.URL(path), strings.Join(sources, ","))
}

// run sends until ctx ends. Every sender waits for its answer before it sends again, and retries an event that was not
// accepted.
func (l *load) run(ctx context.Context) {
	var senders sync.WaitGroup
	for i, target := range l.targets {
		senders.Go(func() {
			pace(ctx, l.perSecond, len(l.targets), i, func(k int) { l.webhook(ctx, target, k) })
		})
	}
	for i, object := range l.objects {
		senders.Go(func() {
			pace(ctx, l.perSecond, len(l.objects), i, func(k int) { l.event(ctx, object, k) })
		})
	}
	senders.Wait()
}

// pace calls send at such a rate that all of count senders together reach rate a second, each at its own phase.
func pace(ctx context.Context, rate, count, index int, send func(k int)) {
	every := time.Second * time.Duration(count) / time.Duration(rate)
	next := time.NewTimer(every * time.Duration(index) / time.Duration(count))
	defer next.Stop()
	for k := 0; ; k++ {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(every)
		send(k)
	}
}

func (l *load) webhook(ctx context.Context, t *target, k int) {
	sent := time.Now()
	n := l.fleet[k%len(l.fleet)]
	resp, err := n.GitHub(ctx, t.path, webhookToken, "push", env.GitHubPush)
	switch {
	case err != nil || resp.Status == http.StatusServiceUnavailable:
		l.refused.Add(1) // a Git host would redeliver; the next push follows at once
	case resp.Status/100 == 2:
		t.mu.Lock()
		t.accepted++
		t.lastSent = sent
		t.mu.Unlock()
		l.webhooks.Add(1)
		l.onAccept()
	default:
		l.t.Errorf("webhook of %s/%s: got %d %q", t.tenant.Namespace, t.name, resp.Status, resp.Body)
	}
}

// event sends one event until it is accepted, as Flux's controllers do: the answer 429 means that it is kept already.
func (l *load) event(ctx context.Context, o *object, k int) {
	message := o.prefix() + strconv.Itoa(k)
	o.template["message"] = message
	body, err := json.Marshal(o.template)
	if err != nil {
		l.t.Error(err)
		return
	}
	for try := k; ; try++ {
		n := l.fleet[try%len(l.fleet)]
		resp, err := n.Do(ctx, http.MethodPost, n.EventsURL+"/", nil, body)
		if err == nil && (resp.Status == http.StatusAccepted || resp.Status == http.StatusTooManyRequests) {
			o.accepted = append(o.accepted, message)
			l.events.Add(1)
			l.onAccept()
			return
		}
		l.refused.Add(1)
		select {
		case <-ctx.Done():
			return // perhaps kept, perhaps not: the answer is missing
		case <-time.After(retryPause):
		}
	}
}

// uptime adds up the messages that were accepted while the notifier was up.
type uptime struct {
	begin            time.Time
	webhooks, events int64 // accepted until begin
	total            time.Duration
	accepted         [2]int64 // webhooks and events
}

// isUp begins a period of being up, isDown ends it.
func (l *load) isUp() {
	l.up.begin, l.up.webhooks, l.up.events = time.Now(), l.webhooks.Load(), l.events.Load()
}

func (l *load) isDown() {
	l.up.total += time.Since(l.up.begin)
	l.up.accepted[0] += l.webhooks.Load() - l.up.webhooks
	l.up.accepted[1] += l.events.Load() - l.up.events
}

// enough fails the test when the load was less than leastPerSecond.
func (l *load) enough() {
	l.t.Helper()
	webhooks := float64(l.up.accepted[0]) / l.up.total.Seconds()
	events := float64(l.up.accepted[1]) / l.up.total.Seconds()
	l.t.Logf("accepted while up: %.0f webhooks/s and %.0f events/s over %s", webhooks, events, l.up.total.Round(time.Millisecond))
	if webhooks < leastPerSecond || events < leastPerSecond {
		l.t.Errorf("the load was less than %d a second of each", leastPerSecond)
	}
}

// serves returns nil if the replica serves the path: it refuses a webhook with a bad signature as such.
func serves(ctx context.Context, n *env.Notifier, path string) error {
	resp, err := n.GitHub(ctx, path, "not the token", "push", env.GitHubPush)
	if err != nil {
		return err
	}
	if resp.Status == http.StatusNotFound {
		return fmt.Errorf("%s is not served yet", path)
	}
	return nil
}

package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
)

var (
	editRounds = flag.Int("edit-rounds", 3, "how many rounds of edits TestE2T4WhatTenantsEditIsServedAsWrittenOverKills makes")
	editSeed   = flag.Uint64("edit-seed", 0, "its seed; 0 is one of the time")
)

const (
	editedTenants = 4
	// eventsARound are those of each object while nothing is edited.
	eventsARound = 12
	// arriveTime bounds the wait for what is expected. A destination that was down is tried again within 30 s.
	arriveTime = 90 * time.Second
	// recorded is after how long an event that was sent is not routed again after a kill.
	recorded = time.Second
	// spread is after how long each replica serves what a status says that the worker does.
	spread = 2 * time.Second
)

// edited is an edit of an Alert or a Provider. Its write and its use are between from and until, which is zero before the statuses said so.
type edited struct{ from, until time.Time }

// delivery identifies what one Alert makes of one event.
type delivery struct{ namespace, provider, alert, message string }

// expected is a delivery that must arrive, unless its Alert or Provider is edited before.
type expected struct {
	delivery
	tenant          *editedTenant
	alert, provider int // -1 for always
	edits           [2]int
}

// edits is a run of the test.
type edits struct {
	t       *testing.T
	sink    *env.Sink
	fleet   []*env.Notifier
	calls   atomic.Int64
	rand    *rand.Rand
	tenants []*editedTenant

	mu      sync.Mutex
	pending []expected
	// never are the deliveries that no Alert makes, of events that were handled while nothing was edited.
	never map[delivery]bool
	// least is the oldest address that a delivery may be sent to.
	least    map[delivery]int
	down     map[string]bool      // "/namespace/provider/"
	accepted map[string]time.Time // by message
	edited   map[string][]*edited // by namespace and name of an Alert or a Provider
	crashes  []crash
}

// T4, E1 to E4 while tenants edit their Alerts, Providers, Receivers and Secrets and destinations go down, over kills: what the statuses
// say is in use decides, and what was accepted before an edit is delivered. Fails, for instance, when a status is written before the spec is
// in use, when the Alerts of a restart are not all compiled before the first event is routed, or when a delivery that waits ends with an edit
// of its Provider's Secret.
func TestE2T4WhatTenantsEditIsServedAsWrittenOverKills(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	w, err := env.NewSystem(ctx, true) // of its own, since the notifiers of other tests write statuses as well
	must(t, err)
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) { editOverKills(ctx, t, w, replicas) })
	}
}

func editOverKills(ctx context.Context, t *testing.T, w *env.System, replicas int) {
	t.Helper()
	sink, err := env.NewSink()
	must(t, err)
	t.Cleanup(func() { _ = sink.Down() })
	seed := *editSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	e := &edits{
		t: t, sink: sink, rand: rand.New(rand.NewPCG(seed, 0)), down: map[string]bool{},
		never: map[delivery]bool{}, least: map[delivery]int{}, accepted: map[string]time.Time{}, edited: map[string][]*edited{},
	}
	sink.AnswerWith(e.answer)
	var o env.NotifierOptions
	if replicas > 1 {
		nats, err := env.StartNATS(ctx, env.NATSOptions{})
		must(t, err)
		t.Cleanup(func() { _ = nats.Stop() })
		o.Args = []string{"--nats-url", nats.URL}
	}
	for range replicas {
		e.fleet = append(e.fleet, start(ctx, t, w, o))
	}
	for range editedTenants {
		tenant, err := newEditedTenant(ctx, w, sink, e.rand)
		must(t, err)
		e.tenants = append(e.tenants, tenant)
	}
	for round := range *editRounds {
		if round > 0 {
			e.edit(ctx)
		}
		e.still(ctx)
		if t.Failed() {
			t.Logf("failed in round %d", round)
			return
		}
	}
	e.recover(ctx)
	e.arrived(ctx, func(expected) bool { return true })
	e.balance()
}

// answer refuses what is sent to a destination that is down.
func (e *edits) answer(r env.Received) env.Answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down[r.Path[:strings.LastIndex(r.Path, "/")+1]] {
		return env.Answer{Status: http.StatusServiceUnavailable}
	}
	return env.Answer{}
}

func (e *edits) setDown(tenant *editedTenant, i int, down bool) {
	tenant.providers[i].down = down
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down["/"+tenant.Namespace+"/"+providerName(i)+"/"] = down
}

// replica returns one of the replicas, another at each call.
func (e *edits) replica() *env.Notifier { return e.fleet[int(e.calls.Add(1))%len(e.fleet)] }

// recover brings back the destinations and Secrets that are away.
func (e *edits) recover(ctx context.Context) {
	for _, tenant := range e.tenants {
		for i := range tenant.providers {
			e.setDown(tenant, i, false)
			if tenant.providers[i].broken {
				tenant.providers[i].broken = false
				must(e.t, tenant.writeProvider(ctx, i, e.sink))
			}
		}
	}
}

// strike kills or ends the process, or does neither, after a moment, and starts it again.
func (e *edits) strike(ctx context.Context, moment time.Duration, kind int) {
	if kind > 1 || pause(ctx, moment) != nil {
		return
	}
	n, at := e.replica(), time.Now()
	end := n.Kill
	if kind == 1 {
		end = n.Stop
	}
	if err := end(); err != nil {
		e.t.Error(err)
	}
	e.crashes = append(e.crashes, crash{what: "worker", at: at, over: time.Now()})
	e.t.Logf("%s strike %d", at.Format("05.000"), kind)
	if err := n.Restart(ctx); err != nil {
		e.t.Error(err)
	}
}

// meanwhile calls all at the same time, beside a strike.
func (e *edits) meanwhile(ctx context.Context, within time.Duration, all ...func()) {
	moment, kind := time.Duration(e.rand.Int64N(int64(within))), e.rand.IntN(3)
	var running sync.WaitGroup
	running.Go(func() { e.strike(ctx, moment, kind) })
	for _, call := range all {
		running.Go(call)
	}
	running.Wait()
}

// edit makes some edits of each tenant, while events come in, and waits until the statuses say that they are in use.
func (e *edits) edit(ctx context.Context) {
	calls := make([]func(), 0, 2*len(e.tenants))
	for _, tenant := range e.tenants {
		writes := e.editsOf(tenant)
		calls = append(calls, func() {
			for _, write := range writes {
				if err := write(ctx); err != nil {
					e.t.Error(err)
				}
			}
		}, func() { e.post(ctx, tenant, nil) })
	}
	e.meanwhile(ctx, 300*time.Millisecond, calls...)
	ctx, cancel := context.WithTimeout(ctx, arriveTime)
	defer cancel()
	for _, tenant := range e.tenants {
		must(e.t, tenant.settled(ctx))
	}
	if len(e.fleet) > 1 {
		must(e.t, pause(ctx, spread))
	}
	for _, all := range e.edited {
		for _, edit := range all {
			if edit.until.IsZero() {
				edit.until = time.Now()
			}
		}
	}
}

// still sends events and webhooks while nothing is edited, and waits until they are handled.
func (e *edits) still(ctx context.Context) {
	var calls []func()
	for _, tenant := range e.tenants {
		calls = append(calls, func() { e.post(ctx, tenant, e.expect) })
		for i := range tenant.receivers {
			calls = append(calls, func() { e.push(ctx, tenant, i) })
		}
	}
	e.meanwhile(ctx, 300*time.Millisecond, calls...)
	e.arrived(ctx, func(x expected) bool { return x.alert < 0 || !x.providerSpec().down && !x.providerSpec().broken })
	must(e.t, pause(ctx, recorded))
}

// post sends events of all objects of a tenant, those of one object one after the other. handled is called with each, and may be nil.
func (e *edits) post(ctx context.Context, tenant *editedTenant, handled func(tenant *editedTenant, object int, severity, message string)) {
	var senders errgroup.Group
	for object := range editedObjects {
		senders.Go(func() error {
			template := tenant.templates[object]
			for range eventsARound {
				severity := "info"
				if tenant.posted[object]%2 == 1 {
					severity = "error"
				}
				tenant.posted[object]++
				message := fmt.Sprintf("%s %s %d", tenant.Namespace, objectName(object), tenant.posted[object])
				template["severity"], template["message"] = severity, message
				if err := e.postOne(ctx, template); err != nil {
					return err
				}
				expect := expected{delivery: delivery{tenant.Namespace, always, always, message}, tenant: tenant, alert: -1, provider: -1}
				e.mu.Lock()
				e.pending = append(e.pending, expect)
				e.accepted[message] = time.Now()
				e.mu.Unlock()
				if handled != nil {
					handled(tenant, object, severity, message)
				}
			}
			return nil
		})
	}
	if err := senders.Wait(); err != nil {
		e.t.Error(err)
	}
}

// postOne sends an event until it is accepted.
func (e *edits) postOne(ctx context.Context, event map[string]any) error {
	return env.Eventually(ctx, func(ctx context.Context) error {
		resp, err := e.replica().Post(ctx, event)
		if err == nil && resp.Status != http.StatusAccepted && resp.Status != http.StatusTooManyRequests {
			err = fmt.Errorf("POST of an event: got %d %q", resp.Status, resp.Body)
		}
		return err
	})
}

// expect notes what becomes of an event that was accepted while nothing is edited.
func (e *edits) expect(tenant *editedTenant, object int, severity, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := false
	for _, a := range tenant.alerts {
		p := tenant.providers[a.provider]
		open = open || a.matches(object, severity) && (p.down || p.broken || !p.exists)
	}
	for i, a := range tenant.alerts {
		for k, p := range tenant.providers {
			n := delivery{tenant.Namespace, providerName(k), alertName(i), message}
			switch {
			case k != a.provider || !a.matches(object, severity) || p.exists && p.suspended:
				e.never[n] = !open
			case p.exists:
				e.least[n] = p.before
				e.pending = append(e.pending, expected{n, tenant, i, k, [2]int{a.edits, p.edits}})
			}
		}
	}
}

// push sends webhooks to a Receiver, and waits for the requests of its targets.
func (e *edits) push(ctx context.Context, tenant *editedTenant, i int) {
	r := tenant.receivers[i]
	if !r.exists {
		return
	}
	want := http.StatusOK
	if r.suspended {
		want = http.StatusServiceUnavailable
	}
	for range 2 {
		var sent time.Time
		err := env.Eventually(ctx, func(ctx context.Context) error {
			sent = time.Now()
			resp, err := e.replica().GitHub(ctx, r.path, r.secret(), "push", env.GitHubPush)
			if err == nil && (resp.Status != want || r.suspended && !strings.Contains(resp.Body, "suspended")) {
				err = fmt.Errorf("webhook of Receiver %s/%s: got %d %q, want %d", tenant.Namespace, receiverName(i), resp.Status, resp.Body, want)
			}
			return err
		})
		if err != nil {
			e.t.Error(err)
			return
		}
		for _, object := range r.targets {
			if r.suspended {
				break
			}
			if _, err := tenant.WaitRequested(ctx, "GitRepository", objectName(object), sent); err != nil {
				e.t.Errorf("T4: lost a webhook of %s: %v", receiverName(i), err)
			}
		}
	}
}

// arrived waits until all expected deliveries that are chosen have arrived, and forgets them and those whose Alert or Provider was edited.
func (e *edits) arrived(ctx context.Context, chosen func(expected) bool) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, arriveTime)
	defer cancel()
	left := e.pending
	_, err := e.sink.Wait(ctx, func([]env.Received) bool {
		seen := map[delivery]bool{}
		for _, r := range deliveriesOf(e.t, e.sink) {
			seen[r.delivery] = true
		}
		var missing []expected
		waiting := false
		for _, x := range left {
			if seen[x.delivery] || x.edited() {
				continue
			}
			missing = append(missing, x)
			waiting = waiting || chosen(x)
		}
		left = missing
		return !waiting
	})
	e.pending = left
	if err == nil {
		return
	}
	for _, x := range left {
		if chosen(x) {
			e.t.Errorf("E2: lost: %+v; alert %+v, provider %+v", x.delivery, x.alertSpec(), x.providerSpec())
		}
	}
}

func (x expected) alertSpec() editedAlert {
	if x.alert < 0 {
		return editedAlert{}
	}
	return x.tenant.alerts[x.alert]
}

func (x expected) providerSpec() editedProvider {
	if x.alert < 0 {
		return editedProvider{}
	}
	return x.tenant.providers[x.provider]
}

// edited reports whether the Alert or the Provider was edited since the event.
func (x expected) edited() bool {
	return x.alertSpec().edits != x.edits[0] || x.providerSpec().edits != x.edits[1]
}

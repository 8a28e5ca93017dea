package apply

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// FuzzT4WhateverOwnersChangeEachWebhookIsApplied is T4 and T2 while the owners of two namespaces make, change, suspend and delete Receivers,
// their objects and what their service accounts may, and one of them floods. The API server is slow, refuses and fails, the bus loses
// acknowledgements, and the worker is killed, drained and replaced. At each step the counts are those of the claims. In the end each webhook
// of a Receiver that still asks for its objects got a request stamped after it, nothing is refused, and when all Receivers are gone nothing
// is left. In three of four seeds the bus is late, hands out what has been replaced, and loses its connection within a term.
//
// Fails when drop keeps a count of none, when the times of claims change without moved, or when take forgets no slot. Of 3,000 seeds some
// fail when conclude ends a claim by an answer from before its webhook, when refusals of objects that are gone stay, or when expand does not take
// the trigger.
func FuzzT4WhateverOwnersChangeEachWebhookIsApplied(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playOwners(t, seed) })
	})
}

// owners are the owners of two namespaces with an applier.
type owners struct {
	*world
	*ownersCluster
	bus  *ownersBus
	rbac *fakeRBAC
	// draws are those of the play.
	draws *rand.Rand
	made  int
	// life has the versions of each Receiver, a deletion with no UID. lag has the changes that the applier has not seen, since lagging.
	life     map[string][]ownersVersion
	lag      []func()
	lagging  time.Time
	webhooks []event.Trigger
	sending  sync.WaitGroup
	halt     func()
}

// ownersVersion is a Receiver as it was from a time on.
type ownersVersion struct {
	Receiver
	from      time.Time
	suspended bool
}

var (
	ownersReceivers = []string{"team/a", "team/b", "team/c", "flood/a", "flood/b"}
	ownersObjects   = []string{"app", "web", "api"}
	ownersAccounts  = []string{"deployer", "weak"}
)

func playOwners(t *testing.T, seed uint64) {
	o := &owners{
		rbac: newRBAC(), bus: newOwnersBus(seed), draws: rand.New(rand.NewPCG(seed, 1)), life: map[string][]ownersVersion{},
		ownersCluster: newOwnersCluster(seed),
	}
	o.world = newWorld(t, reviewing(t, o.rbac), func(w *Options) {
		w.Bus, w.Selector, w.ReviewInterval = o.bus, o.ownersCluster, time.Minute
		w.QPS, w.Burst = []float64{5, 20, 100}[o.draws.IntN(3)], 10
	})
	o.halt = o.world.stop
	o.world.api.respond(o.ownersCluster.answer)
	for _, account := range ownersAccounts {
		o.permit(account, true)
	}
	for _, key := range ownersReceivers {
		o.change(key)
	}
	for range 80 {
		pass(time.Duration(o.draws.Int64N(int64([]time.Duration{10 * time.Millisecond, time.Second, 10 * time.Second}[o.draws.IntN(3)]))))
		o.applier.consistent(t)
		o.step()
	}
	o.settle()
	o.halt()
}

// step has one thing happen.
func (o *owners) step() {
	if len(o.lag) > 0 && (o.draws.IntN(2) == 0 || time.Since(o.lagging) > unseenFor/2) {
		o.see()
	}
	switch n := o.draws.IntN(40); {
	case n < 20:
		o.webhook(ownersAny(o.draws, ownersReceivers))
	case n < 22:
		for range 20 + o.draws.IntN(40) {
			o.webhook(ownersAny(o.draws, []string{"flood/a", "flood/b"}))
		}
	case n < 27:
		o.change(ownersAny(o.draws, ownersReceivers))
	case n < 30:
		o.permit(ownersAny(o.draws, ownersAccounts), o.draws.IntN(2) == 0)
	case n < 35:
		o.ownersCluster.change(o.draws)
	case n < 37:
		o.bus.endTerm(o.draws.IntN(2) == 0)
	case n < 38 && o.bus.rough && o.draws.IntN(2) == 0:
		o.bus.interrupt()
	case n < 38:
		o.halt()
		o.begin()
	}
}

// begin begins another replica.
func (o *owners) begin() {
	o.forgetReports()
	o.opts.Registerer, o.opts.Catalogue = prometheus.NewRegistry(), kube.NewCatalogue(o.world.api)
	var err error
	o.applier, err = New(o.opts)
	o.must(err)
	ctx, cancel := context.WithCancel(o.t.Context())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{o.applier.Run, o.opts.Catalogue.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				o.t.Error(err)
			}
		})
	}
	o.halt = func() { cancel(); wg.Wait() }
}

// forgetReports removes the reports of Receivers that are gone, as the reconciler does, and returns their keys.
func (o *owners) forgetReports() (keys map[string]bool) {
	o.reports.mu.Lock()
	defer o.reports.mu.Unlock()
	keys = map[string]bool{}
	for key := range o.reports.values {
		namespace, name, _ := strings.Cut(strings.TrimPrefix(key, healthPrefix), "/")
		if _, live := o.receivers.Live(namespace, name); !live {
			delete(o.reports.values, key)
			keys[key] = true
		}
	}
	return keys
}

// see has the applier see all changes.
func (o *owners) see() {
	for _, change := range o.lag {
		change()
	}
	o.lag = nil
}

func (o *owners) permit(account string, allowed bool) {
	o.rbac.change(func() { o.rbac.may[account+" gitrepositories *"], o.rbac.accounts[account] = allowed, true })
	o.ownersCluster.permit(account, allowed)
}

// change makes, edits or deletes a Receiver.
func (o *owners) change(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	before := o.last(key)
	v := ownersVersion{Receiver: Receiver{Namespace: namespace, Name: name}, from: time.Now()}
	switch {
	case before.UID == "" || o.draws.IntN(6) == 0:
		o.made++
		v.UID, v.Created, v.Generation = fmt.Sprint("uid-", o.made), time.Now().Truncate(time.Second), 1
	case o.draws.IntN(4) == 0:
	default:
		v.UID, v.Created, v.Generation = before.UID, before.Created, before.Generation+1
		v.suspended = o.draws.IntN(5) == 0
	}
	if v.UID != "" {
		v.ServiceAccount = ownersAny(o.draws, ownersAccounts)
		for range 1 + o.draws.IntN(3) {
			target := repo(ownersAny(o.draws, ownersObjects))
			switch o.draws.IntN(4) {
			case 0:
				target = selecting("team", ownersAny(o.draws, []string{"a", "b"}))
			case 1:
				target.APIVersion = ""
			}
			v.Targets = append(v.Targets, target)
		}
	}
	o.life[key] = append(o.life[key], v)
	if len(o.lag) == 0 {
		o.lagging = time.Now()
	}
	o.lag = append(o.lag, func() {
		if v.UID == "" {
			o.receivers.remove(namespace, name)
		} else {
			o.receivers.put(v.Receiver)
		}
	})
}

func (o *owners) last(key string) ownersVersion {
	versions := o.life[key]
	if len(versions) == 0 {
		return ownersVersion{}
	}
	return versions[len(versions)-1]
}

// webhook sends a webhook to a Receiver, for one of its targets, or for one of the objects that it selects.
func (o *owners) webhook(key string) {
	r := o.last(key)
	if r.UID == "" || r.suspended {
		return
	}
	target := r.Targets[o.draws.IntN(len(r.Targets))]
	if target.Selects() && o.draws.IntN(3) == 0 {
		names, _ := o.Select(r.Namespace, target)
		if len(names) == 0 {
			return
		}
		target = target.Named(ownersAny(o.draws, names))
	}
	o.publish(r.Receiver, target)
}

func (o *owners) publish(r Receiver, target event.Target) {
	sent := trigger(r, target)
	sent.Generation = r.Generation
	o.webhooks = append(o.webhooks, sent)
	takes := time.Duration(o.draws.IntN(20)) * time.Millisecond
	o.sending.Go(func() {
		<-time.After(takes)
		o.bus.publish(sent)
	})
}

func ownersAny[T any](draws *rand.Rand, of []T) T { return of[draws.IntN(len(of))] }

// settle mends everything, and checks what became of all webhooks.
func (o *owners) settle() {
	o.see()
	o.bus.mu.Lock()
	o.bus.cured = true
	o.bus.mu.Unlock()
	for _, account := range ownersAccounts {
		o.permit(account, true)
	}
	o.ownersCluster.mend()
	for range 10 {
		pass(30 * time.Second)
		o.applier.consistent(o.t)
	}
	for _, sent := range o.webhooks { // before later webhooks hide what is missing
		o.applied(sent)
	}
	for _, key := range ownersReceivers {
		r := o.last(key)
		for _, target := range r.Targets {
			o.publish(r.Receiver, target)
		}
		pass(10 * time.Second) // no Receiver's webhook takes the place of another's
	}
	o.sending.Wait()
	for range 10 {
		pass(30 * time.Second)
		o.applier.consistent(o.t)
	}
	for _, sent := range o.webhooks {
		o.applied(sent)
	}
	o.ownersCluster.check(o.t)
	if n := o.bus.twice.Load(); n > 0 {
		o.t.Errorf("%d messages ended twice", n)
	}
	if n := o.bus.left(); n > 0 {
		o.t.Errorf("%d triggers are left on the bus", n)
	}
	for _, key := range ownersReceivers {
		if h := o.health(key); h.UID == o.last(key).UID && len(h.Denied) > 0 {
			o.t.Errorf("%s shows %+v", key, h.Denied)
		}
		namespace, name, _ := strings.Cut(key, "/")
		o.receivers.remove(namespace, name)
	}
	for key := range o.forgetReports() {
		o.applier.refusals.learn(key, nil)
	}
	pass(3 * time.Minute)
	o.applier.consistent(o.t)
	o.applier.empty(o.t)
}

// applied checks that a webhook was applied, unless its Receiver is gone or has not asked for the target since.
func (o *owners) applied(sent event.Trigger) {
	accounts := map[string]bool{}
	versions := o.life[sent.Namespace+"/"+sent.Receiver]
	if versions[len(versions)-1].UID != sent.ReceiverUID {
		return
	}
	for i, v := range versions {
		if i+1 < len(versions) && !versions[i+1].from.Add(unseenFor).After(sent.Accepted) {
			continue // replaced before, and seen to be
		}
		accounts[v.ServiceAccount] = true
		if i+1 < len(versions) && !versions[i+1].from.After(sent.Accepted) {
			continue
		}
		if !slices.ContainsFunc(v.Targets, func(t event.Target) bool {
			is, want := samenessOf(t), samenessOf(sent.Target)
			return is == want || !sent.Target.Selects() && t.Selects() && is.groupKind == want.groupKind &&
				o.ownersCluster.selectedSince(v.Namespace, t, sent.Target.Name, sent.Accepted)
		}) {
			return
		}
	}
	if o.together(sent, accounts) {
		return
	}
	objects := []string{sent.Target.Name}
	if sent.Target.Selects() {
		objects = slices.DeleteFunc(slices.Clone(ownersObjects), func(name string) bool {
			return !o.ownersCluster.selectedSince(sent.Namespace, sent.Target, name, sent.Accepted)
		})
	}
	for _, object := range objects {
		if !o.ownersCluster.met(sent, object, accounts) {
			o.t.Errorf("the webhook of %s/%s for %s, accepted at %s, got no request", sent.Namespace, sent.Receiver, object, sent.Accepted)
		}
	}
}

// together adds the accounts of Receivers whose triggers may have taken the place of a webhook's, which is then applied for them. It reports
// whether the webhook may be lost with such a Receiver, as its own has got another account since.
func (o *owners) together(sent event.Trigger, accounts map[string]bool) (moved bool) {
	own := accounts[ownersAccounts[0]] && accounts[ownersAccounts[1]]
	for _, w := range o.webhooks {
		if w.Namespace != sent.Namespace || w.Key != sent.Key || w.ReceiverUID == sent.ReceiverUID {
			continue
		}
		moved = own
		for _, v := range o.life[w.Namespace+"/"+w.Receiver] {
			if v.UID == w.ReceiverUID {
				accounts[v.ServiceAccount] = true
			}
		}
	}
	return moved
}

package alerts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// FuzzE2WhateverOwnersChangeEachDeliveryEndsAndIsCounted is E2 and E4 while the owners of four Providers change, break, suspend, delete and make them
// anew, and their Alerts as well, ask for replays and tests, and have more deliveries waiting than their quota. The bus fails at times, and the
// worker is killed and drained. At each step the counts are those of the deliveries. In the end each delivery was accepted or became a dead
// letter, nothing waits, and the ledger has the numbers of the bus.
//
// Fails when forget leaves one of the counts as it was, or when noteGivenUp counts an entry whose read failed once more.
func FuzzE2WhateverOwnersChangeEachDeliveryEndsAndIsCounted(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { playOwners(t, seed) })
	})
}

// owners are a namespace's Providers and Alerts, as they are changed.
type owners struct {
	*world
	mu  sync.Mutex
	rng *rand.Rand
	// made counts the objects that were made, versions the configurations of Providers.
	made, versions int
	// long is the message of some events.
	long string
	// published are the deliveries of each Provider and object, in order, and all their IDs. ended are those that were accepted or became dead
	// letters, accepted those that were accepted. replayed is when one was last replayed.
	published       map[string][]string
	ids             []string
	ended, accepted map[string]bool
	replayed        map[string]time.Time
}

var ownersProviders = []string{"chat", "mail", "hook", "page"}

// endsLetters notes the dead letters of a session.
type endsLetters struct {
	*fakeSession
	of *owners
}

func (s *endsLetters) DeadLetter(ctx context.Context, d *event.Delivery, label, reason string) error {
	err := s.fakeSession.DeadLetter(ctx, d, label, reason)
	if err == nil {
		s.of.end(d.ID)
	}
	return err
}

func (o *owners) end(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended[id] = true
}

// Replay notes when a delivery was replayed, which its answer may tell later.
func (s *endsLetters) Replay(ctx context.Context, letter event.Dead) error {
	s.of.mu.Lock()
	s.of.replayed[letter.Delivery.ID] = time.Now()
	s.of.mu.Unlock()
	return s.fakeSession.Replay(ctx, letter)
}

// begins fails the test if a delivery is sent before an earlier one of its object that is neither accepted nor dead (invariant E4).
func (o *owners) begins(name string, n provider.Notification) {
	dead := o.bus.deadIDs()
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.published[name+"/"+n.Event.InvolvedObject.Name]
	for _, id := range line[:max(0, slices.Index(line, n.DeliveryID))] {
		if !o.accepted[id] && !dead[id] && !o.replayed[id].Equal(time.Now()) {
			o.t.Errorf("E4: %s is sent before %s", n.DeliveryID, id)
		}
	}
}

func (o *owners) intN(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rng.IntN(n)
}

// sender returns a destination that answers a part of the sends by an error, which makes it.
func (o *owners) sender(name string, percent int, failure func() error) Sender {
	return sendFunc(func(_ context.Context, n provider.Notification) error {
		o.begins(name, n)
		<-time.After(time.Duration(1+o.intN(3000)) * time.Millisecond)
		if o.intN(100) < percent {
			return failure()
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended[n.DeliveryID], o.accepted[n.DeliveryID] = true, true
		return nil
	})
}

// provide makes or changes a Provider.
func (o *owners) provide(name string, set func(*Destination)) {
	o.versions++
	dest := &Destination{Type: "generic", Version: fmt.Sprint(o.versions), Sender: o.sender(name, 10, func() error {
		return failure(event.Retry, provider.LabelServer)
	})}
	if is := o.destinations.Get("team-a", name); is != nil {
		dest.UID, dest.Created = is.UID, is.Created
	} else {
		o.made++
		dest.UID, dest.Created = fmt.Sprint("p-", o.made), time.Now()
	}
	set(dest)
	o.destinations.Put("team-a", name, dest)
}

func (o *owners) alertFor(name string) {
	if _, known := o.alerts.Lookup("team-a", "alert-of-"+name); !known {
		o.made++
		o.alert("team-a", "alert-of-"+name, fmt.Sprint("uid-", o.made), name)
	}
}

// change changes a Provider or its Alert at random.
func (o *owners) change(name string) {
	fails := func(percent int, class event.Class, wait time.Duration) func(*Destination) {
		return func(d *Destination) {
			d.Sender = o.sender(name, percent, func() error {
				return &event.Error{Class: class, Label: provider.LabelServer, Reason: "HTTP 5xx", RetryAfter: wait}
			})
		}
	}
	switch o.intN(14) {
	case 0:
		o.provide(name, fails(100, event.Permanent, 0))
	case 1:
		o.provide(name, fails(100, event.Retry, 0))
	case 2:
		o.provide(name, fails(80, event.Retry, time.Duration(o.intN(300))*time.Second))
	case 3:
		o.provide(name, func(d *Destination) { d.Limit, d.Burst = 0.2, 2 })
	case 4:
		o.provide(name, func(d *Destination) { d.Suspended = true })
	case 5:
		o.provide(name, func(d *Destination) { d.Unsupported, d.NotReady = true, "no such type" })
	case 6:
		o.provide(name, func(d *Destination) { d.Sender, d.NotReady = nil, "no Secret" })
	case 7:
		o.provide(name, func(d *Destination) {
			d.Sender = sendFunc(func(context.Context, provider.Notification) error { panic("no") })
		})
	case 8:
		o.destinations.Delete("team-a", name)
	case 9:
		o.destinations.Delete("team-a", name)
		o.provide(name, func(*Destination) {})
	case 10:
		o.alerts.Delete("team-a/alert-of-" + name)
	case 11:
		o.alerts.Delete("team-a/alert-of-" + name)
		o.alertFor(name)
	default:
		o.provide(name, func(*Destination) {})
		o.alertFor(name)
	}
}

// publish publishes an event's delivery by the Alert of a Provider, unless that is deleted.
func (o *owners) publish(name string) {
	if _, known := o.alerts.Lookup("team-a", "alert-of-"+name); !known {
		return
	}
	object := fmt.Sprint("app", o.intN(5))
	d := o.routed(name, object)
	d.ProviderUID, d.Destination = "", ""
	if dest := o.destinations.Get("team-a", name); dest != nil {
		d.ProviderUID, d.Destination = dest.UID, dest.Version
	}
	switch o.intN(8) {
	case 0:
		d.Known = false
	case 1:
		d.Event.Severity = event.SeverityError
	case 2:
		d.Event.Message = o.long
	}
	o.mu.Lock()
	o.ids, o.published[name+"/"+object] = append(o.ids, d.ID), append(o.published[name+"/"+object], d.ID)
	o.mu.Unlock()
	o.bus.publish(d)
}

// ask asks for a replay or a test.
func (o *owners) ask(ctx context.Context, d *Deliverer, name string) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	switch o.intN(4) {
	case 0:
		_, _ = d.Test(ctx, "team-a", view.TestRequest{Provider: name, Value: fmt.Sprint(o.intN(1000))})
	case 1:
		_, _ = d.Replay(ctx, "team-a", view.ReplayRequest{State: view.StateSent, Provider: name, Since: time.Now().Add(-time.Minute)})
	case 2:
		_, _ = d.Replay(ctx, "team-a", view.ReplayRequest{State: view.StateDead})
	case 3:
		_, _ = d.Replay(ctx, "team-a", view.ReplayRequest{Provider: name})
	}
}

func playOwners(t *testing.T, seed uint64) {
	o := &owners{
		world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 7)),
		published: map[string][]string{}, ended: map[string]bool{}, accepted: map[string]bool{}, replayed: map[string]time.Time{},
	}
	o.bus.rough = newRough(seed, true)
	o.quota, o.maxAge = 60, time.Hour
	faults, faulty := rand.New(rand.NewPCG(seed, 9)), seed%2 == 1
	o.bus.faults = func(op string) error { // its caller has the lock of the bus
		if one := 20; op != "letter" && faulty {
			if op == "done" && seed%4 == 3 {
				one = 3 // most messages come again
			}
			if faults.IntN(one) == 0 {
				return errors.New("bus hiccup")
			}
		}
		return nil
	}
	begin := func() (*Deliverer, *fakeSession, func()) {
		return o.startWith(func(d *Deliverer, s *fakeSession) { d.ReplayWindow, d.Bus = DefaultReplayWindow, &endsLetters{s, o} })
	}
	if o.long = strings.Repeat("x", 20_000); seed%4 == 2 {
		o.long = strings.Repeat("x", namespaceHeldBytes/8) // some are all that a namespace may have in memory
	}
	for _, name := range ownersProviders {
		o.provide(name, func(*Destination) {})
		o.alertFor(name)
	}
	d, s, stop := begin()
	var asked sync.WaitGroup
	for range 400 {
		pass(time.Duration(o.intN(1500)) * time.Millisecond)
		name := ownersProviders[o.intN(len(ownersProviders))]
		switch o.intN(20) {
		case 0:
			o.change(name)
		case 1, 4:
			d := d
			asked.Go(func() { o.ask(t.Context(), d, name) })
		case 2:
			pass(time.Duration(o.intN(120)) * time.Second)
		case 3:
			for range 30 {
				o.publish(name)
			}
		default:
			o.publish(name)
		}
		consistent(t, d)
		if o.intN(80) == 0 {
			if o.intN(2) == 0 {
				s.kill()
			}
			stop()
			d, s, stop = begin()
		}
	}
	asked.Wait()
	o.bus.mu.Lock()
	faulty = false
	o.bus.mu.Unlock()
	for _, name := range ownersProviders {
		o.provide(name, func(*Destination) {})
		o.alertFor(name)
	}
	wait(3 * time.Hour) // longer than the lifetime of a delivery and of its replay
	o.settled(d)
	stop()
}

// settled fails the test unless everything has ended and is counted.
func (o *owners) settled(d *Deliverer) {
	o.t.Helper()
	consistent(o.t, d)
	if !o.bus.empty() {
		o.t.Errorf("%d messages are left on the bus", o.bus.left())
	}
	ended := o.bus.deadIDs()
	for _, id := range o.ids {
		if !o.ended[id] && !ended[id] {
			o.t.Errorf("%s neither was accepted nor is dead", id)
		}
	}
	dead := map[objectName]int{}
	for _, l := range o.bus.deadLetters() {
		dead[objectName{kindProvider, "team-a", l.d.Provider}]++
		dead[objectName{kindAlert, "team-a", l.d.Alert}]++
	}
	for _, name := range ownersProviders {
		for _, of := range []objectName{{kindProvider, "team-a", name}, {kindAlert, "team-a", "alert-of-" + name}} {
			if s := o.notes.ledger.Get(of.kind, of.namespace, of.name); !s.Counted || s.Pending != 0 || s.Dead != dead[of] {
				o.t.Errorf("%s: counted %t, %d wait, %d are dead, want %d", of, s.Counted, s.Pending, s.Dead, dead[of])
			}
		}
	}
	for _, s := range d.shards.all() {
		if changes := slices.DeleteFunc(slices.Collect(maps.Values(s.dead.changes)), func(n int) bool { return n == 0 }); len(changes) > 0 || len(s.items) > 0 || s.tasks > 0 {
			o.t.Errorf("changes of dead letters %v, %d items, %d tasks", changes, len(s.items), s.tasks)
		}
	}
}

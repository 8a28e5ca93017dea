package alerts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// FuzzE4AskedReplays is E2, E3 and E4 while an owner asks for replays of all kinds of a Provider that is broken and mended again and again,
// beside those that follow each mend, with a bus that fails at times, kills and drains. All is accepted in the end, and no delivery is sent
// while an earlier one of its object is neither accepted nor dead. Where no acknowledgement is lost, each is accepted once, and at most once
// more for each replay of a sent one.
//
// Fails when replayed deliveries get no places before they are published, when a message of a later replay ends with an earlier one, when
// both letters of a delivery are replayed, when a letter that a request leaves keeps its place, when the bus drops a letter for one that was
// replayed, when a replay that waits on the schedule is forgotten, or when the places of a replay leave what is behind them to be recalled.
func FuzzE4AskedReplays(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Add(uint64(164)) // a request has deliveries before some that wait on the schedule
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { playAsked(t, seed) })
	})
}

// asked is a world in which an owner asks for replays.
type asked struct {
	*world
	rng *rand.Rand

	mu       sync.Mutex
	orders   map[string]uint64   // of all deliveries, by ID
	objects  map[string][]string // the IDs of an object's deliveries, in order
	accepted map[string]int
	// again counts the replays of deliveries that were sent.
	again map[string]int
	// replayed is when a delivery was last replayed.
	replayed map[string]time.Time
}

// askedLetters are the dead letters of a session.
type askedLetters struct {
	*fakeSession
	of *asked
}

// Replay notes when a delivery was replayed, which its answer may tell later, and the replays of deliveries that were sent.
func (s *askedLetters) Replay(ctx context.Context, letter event.Dead) error {
	s.of.mu.Lock()
	s.of.replayed[letter.Delivery.ID] = time.Now()
	s.of.mu.Unlock()
	err := s.fakeSession.Replay(ctx, letter)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if err == nil && letter.Seq == 0 {
		s.of.again[letter.Delivery.ID]++
	}
	return err
}

// sender returns a destination that accepts a delivery, or refuses it for ever if it is broken.
func (a *asked) sender(broken bool) Sender {
	return sendFunc(func(_ context.Context, n provider.Notification) error {
		a.begins(n.DeliveryID, n.Event.InvolvedObject.Name)
		a.mu.Lock()
		took := time.Duration(1+a.rng.IntN(2000)) * time.Millisecond
		refused := a.rng.IntN(10) == 0
		a.mu.Unlock()
		<-time.After(took)
		switch {
		case broken:
			return event.NewError(event.Permanent, provider.LabelClient, "HTTP 404", nil)
		case refused:
			return event.NewError(event.Retry, provider.LabelServer, "HTTP 503", nil)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.accepted[n.DeliveryID]++
		return nil
	})
}

// begins fails the test if a delivery is sent before an earlier one of its object that is neither accepted nor dead.
func (a *asked) begins(id, object string) {
	dead := a.bus.deadIDs()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, earlier := range a.objects[object] {
		if a.orders[earlier] < a.orders[id] && a.accepted[earlier] == 0 && !dead[earlier] && !a.replayed[earlier].Equal(time.Now()) {
			a.t.Errorf("E4: %d is sent before %d", a.orders[id], a.orders[earlier])
		}
	}
}

func (a *asked) publish(object string) {
	d := a.routed("chat", object)
	a.mu.Lock()
	a.orders[d.ID] = d.Order
	a.objects[object] = append(a.objects[object], d.ID)
	a.mu.Unlock()
	a.bus.publish(d)
}

// request returns a random request.
func (a *asked) request() view.ReplayRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.rng.IntN(4) {
	case 0:
		return view.ReplayRequest{State: view.StateDead}
	case 1:
		return view.ReplayRequest{Provider: "chat", Since: time.Now().Add(-time.Minute)}
	case 2:
		return view.ReplayRequest{State: view.StateSent, Since: time.Now().Add(-10 * time.Second)}
	}
	var ids []string
	for id := range a.orders {
		if a.rng.IntN(len(a.orders)) < 5 {
			ids = append(ids, id)
		}
	}
	return view.ReplayRequest{IDs: ids}
}

func playAsked(t *testing.T, seed uint64) {
	a := &asked{
		world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 7)),
		orders: map[string]uint64{}, objects: map[string][]string{}, accepted: map[string]int{}, again: map[string]int{}, replayed: map[string]time.Time{},
	}
	a.bus.rough = newRough(seed, true)
	rng, kills := rand.New(rand.NewPCG(seed, 9)), seed%2 == 1
	faults, faulty := rand.New(rand.NewPCG(seed, 10)), seed%4 >= 2
	a.bus.faults = func(op string) error { // its caller has the lock of the bus
		if op != "letter" && faulty && faults.IntN(20) == 0 {
			return errors.New("bus hiccup")
		}
		return nil
	}
	begin := func() (*Deliverer, *fakeSession, func()) {
		return a.startWith(func(d *Deliverer, s *fakeSession) {
			if seed%3 > 0 {
				d.ReplayWindow = DefaultReplayWindow
			}
			d.Bus = &askedLetters{s, a}
		})
	}
	slow := seed%5 > 2
	if slow { // so that requests leave letters to others
		a.bus.slow(100*time.Millisecond, "replay")
	}
	version, broken := 1, false
	a.version("chat", "1", a.sender(false))
	d, s, stop := begin()
	var requests sync.WaitGroup
	for range 150 {
		pass(time.Duration(rng.IntN(1500)) * time.Millisecond)
		if rng.IntN(30) == 0 {
			version, broken = version+1, !broken
			a.version("chat", fmt.Sprint(version), a.sender(broken))
		}
		a.publish(fmt.Sprint("app", rng.IntN(6)))
		consistent(t, d)
		if rng.IntN(8) == 0 {
			d, within := d, replayTime
			if slow {
				within = busTimeout + time.Duration(rng.IntN(500))*time.Millisecond
			}
			requests.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				_, _ = d.Replay(ctx, "team-a", a.request())
			})
		}
		if rng.IntN(60) == 0 {
			if kills {
				s.kill()
			}
			stop()
			d, s, stop = begin()
		}
	}
	requests.Wait()
	a.bus.mu.Lock()
	faulty = false
	a.bus.mu.Unlock()
	a.version("chat", fmt.Sprint(version+1), a.sender(false))
	for range 10 {
		wait(10 * time.Minute)
		if len(a.bus.deadLetters()) > 0 {
			_, _ = d.Replay(t.Context(), "team-a", view.ReplayRequest{State: view.StateDead})
		}
	}
	for _, m := range a.bus.stuck() {
		t.Errorf("replay %d of %d is on the schedule until %v", m.d.Replays, m.d.Order, m.at)
	}
	stop()
	_, _, stop = begin() // it finds the copies of sent deliveries that wait on the schedule
	wait(10 * time.Minute)
	stop()
	if !a.bus.empty() || len(a.bus.deadLetters()) > 0 {
		t.Errorf("%d deliveries are left on the bus, %d are dead", a.bus.left(), len(a.bus.deadLetters()))
	}
	for id, order := range a.orders {
		if n, most := a.accepted[id], 1+a.again[id]; n == 0 || !kills && seed%4 < 2 && n > most {
			t.Errorf("%d was accepted %d times, and replayed %d times once it was sent", order, n, a.again[id])
		}
	}
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzE2AnAcceptedEventIsInTheStreamOnce is E2 and E3 for publishers of which some give up and repeat, and some publish what others publish
// as well, to a server that is late, refuses and loses connections. Fails when an accepted event is not on disk, or is stored again later;
// when an event is stored twice although no connection was lost; when a younger one of its object is stored before it; or when a follower
// misses it.
func FuzzE2AnAcceptedEventIsInTheStreamOnce(f *testing.F) {
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 14, 28} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playPublishing(t, seed) })
	})
}

// accepted has the events whose publish returned nil, by ID.
type accepted struct {
	*rough
	bus  *Bus
	mu   sync.Mutex
	seqs map[string]uint64
	at   map[string]time.Time // of the first answer
	// fresh counts the publishes of an ID that were not answered as duplicates.
	fresh    map[string]int
	followed map[string]int
}

func playPublishing(t *testing.T, seed uint64) {
	s := newRough(t, seed)
	b := s.bus()
	a := &accepted{rough: s, bus: b, seqs: map[string]uint64{}, at: map[string]time.Time{}, fresh: map[string]int{}, followed: map[string]int{}}
	follow, stop := context.WithCancel(t.Context())
	var followers sync.WaitGroup
	followers.Go(func() { a.follow(follow, t) })
	followers.Go(func() { s.refresh(follow, b) })
	var publishers sync.WaitGroup
	for p := range 6 {
		publishers.Go(func() {
			for i := range 30 {
				id := fmt.Sprintf("%d-%02d", p, i)
				if s.chance(6) {
					id = fmt.Sprint("common-", s.intN(20)) // of several publishers
				}
				if s.chance(4) {
					publishers.Go(func() { a.publish(t, id, p) })
					pass(time.Microsecond)
				} else {
					a.publish(t, id, p)
				}
				pass(s.pause())
			}
		})
	}
	publishers.Go(func() { // calls for one object, which begin one after the other
		for i := range 60 {
			publishers.Go(func() {
				_, _ = b.PublishEvent(t.Context(), testRecord(fmt.Sprintf("order-%02d", i), "team-0", "order"))
			})
			pass(time.Microsecond + s.pause())
		}
	})
	publishers.Wait()
	s.calmDown()
	pass(2 * lateAnswer)
	b.events.work.Wait()
	a.check(t)
	stop()
	followers.Wait()
}

// follow counts the events that a follower gets.
func (a *accepted) follow(ctx context.Context, t *testing.T) {
	last := uint64(0)
	a.bus.FollowEvents(ctx, time.Now(), func(r *event.Record) {
		a.rough.mu.Lock()
		defer a.rough.mu.Unlock()
		if r.Seq > a.synced {
			t.Errorf("%s is followed before it is on disk", r.ID)
		}
		if r.Seq <= last {
			t.Errorf("%s is followed at %d after %d", r.ID, r.Seq, last)
		}
		last = r.Seq
		a.mu.Lock()
		defer a.mu.Unlock()
		a.followed[r.ID]++
	}, nil)
}

// publish publishes an event until it is accepted, or is given up.
func (a *accepted) publish(t *testing.T, id string, p int) {
	name := fmt.Sprint("app-", p%2)
	namespace := fmt.Sprint("team-", p/3)
	if id[0] == 'c' {
		name, namespace = "common", "team-0"
	}
	for range 20 {
		r := testRecord(id, namespace, name)
		ctx, cancel := context.WithCancel(t.Context())
		if a.chance(8) {
			defer time.AfterFunc(time.Duration(a.intN(int(3*time.Second))), cancel).Stop()
		}
		began := time.Now()
		duplicate, err := a.attempt(ctx, r)
		cancel()
		if took := time.Since(began); took > 2*publishTimeout+backlogWait {
			t.Errorf("%s: answered after %s: %v", id, took, err)
		}
		if err == nil {
			a.accept(t, r, duplicate)
			if !a.chance(5) {
				return
			}
			pass(a.pause()) // and once more
			continue
		}
		if errors.Is(err, event.ErrOvertaken) {
			pass(a.pause())
			continue
		}
		if a.chance(8) {
			return
		}
		pass(time.Duration(a.intN(int(2 * time.Second))))
	}
}

// attempt is one publish. Some are refused when the object has an event that this publisher does not know.
func (a *accepted) attempt(ctx context.Context, r *event.Record) (duplicate bool, err error) {
	if !a.chance(4) {
		return a.bus.PublishEvent(ctx, r)
	}
	a.rough.mu.Lock()
	last := a.last(eventSubject(r.Event.InvolvedObject))
	a.rough.mu.Unlock()
	return a.bus.PublishEventAfter(ctx, r, last)
}

// accept checks what a publish returned that succeeded.
func (a *accepted) accept(t *testing.T, r *event.Record, duplicate bool) {
	a.rough.mu.Lock()
	defer a.rough.mu.Unlock()
	switch {
	case r.Seq == 0 || r.Seq > uint64(len(a.log)) || a.log[r.Seq-1].id() != r.ID:
		t.Errorf("%s is not at %d", r.ID, r.Seq)
	case r.Seq > a.synced:
		t.Errorf("%s at %d is not on disk", r.ID, r.Seq)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq, known := a.seqs[r.ID]; known && seq != r.Seq && a.losses == 0 {
		t.Errorf("%s was accepted at %d and at %d", r.ID, seq, r.Seq)
	}
	if a.at[r.ID].IsZero() {
		a.at[r.ID] = time.Now()
	}
	a.seqs[r.ID] = r.Seq
	if !duplicate {
		a.fresh[r.ID]++
	}
}

// check checks the stream in the end.
func (a *accepted) check(t *testing.T) {
	stored := a.stored()
	twice, next := 0, uint64(0)
	for i := range 60 {
		for _, m := range stored[fmt.Sprintf("order-%02d", i)] {
			if m.seq < next {
				t.Errorf("%s is stored at %d, a later one of its object before it", m.id(), m.seq)
			}
			next = m.seq
		}
	}
	for id, msgs := range stored {
		if len(msgs) > 1 {
			twice++
		}
		if last := msgs[len(msgs)-1]; len(msgs) > 1 && !a.at[id].IsZero() && last.at.After(a.at[id]) {
			t.Errorf("%s was stored again after it was accepted", id)
		}
		if a.followed[id] != len(msgs) {
			t.Errorf("%s was followed %d times and is stored %d times", id, a.followed[id], len(msgs))
		}
		if a.fresh[id] > len(msgs) {
			t.Errorf("%s was answered as new %d times", id, a.fresh[id])
		}
	}
	for id := range a.seqs {
		if len(stored[id]) == 0 {
			t.Errorf("%s is not stored", id)
		}
	}
	if twice > 0 && a.losses == 0 {
		t.Errorf("%d are stored twice", twice)
	}
	if len(a.pending) > 0 {
		t.Errorf("%d have no answer", len(a.pending))
	}
}

package alerts

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alloctest"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// largeLetters makes the dead letters of a fakeBus, and its events, large where they are read, since those of a real bus are outside of the Go
// heap. It measures the heap meanwhile.
type largeLetters struct {
	size int // of each letter, 0 for letters as they are

	mu           sync.Mutex
	before, most int64
	whole, cut   int // published with the text, and without it
}

// begin makes the letters that are read from now on large.
func (l *largeLetters) begin(size int) {
	l.measure()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size, l.most = size, 0
	l.before = alloctest.InUse()
}

func (l *largeLetters) measure() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 {
		l.most = max(l.most, alloctest.InUse())
	}
}

// read returns a delivery as it is read from the bus.
func (l *largeLetters) read(d event.Delivery) event.Delivery {
	if l.size > 0 {
		d.Event.Metadata = map[string]string{"text": strings.Repeat("x", l.size)}
		d.Authored = []string{"text"}
	}
	return d
}

// event returns an event as it is read from the bus.
func (l *largeLetters) event(rec *event.Record) *event.Record {
	if l.size == 0 {
		return rec
	}
	large := *rec
	large.Event.Metadata = map[string]string{event.MetadataPrefix + "text": strings.Repeat("x", l.size)}
	return &large
}

// small returns a delivery without what read added.
func (l *largeLetters) small(d event.Delivery) event.Delivery {
	if l.size > 0 {
		d.Event.Metadata, d.Authored = nil, nil
	}
	return d
}

// stored returns a delivery as it is kept by the fakeBus after it was published, which takes a while. With sent it was sent before.
func (l *largeLetters) stored(d event.Delivery, sent bool) event.Delivery {
	if l.size == 0 {
		return d
	}
	pass(10 * time.Millisecond)
	l.measure()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(d.Event.Metadata["text"]) == l.size && (sent || slices.Equal(d.Authored, []string{"text"})) {
		l.whole++
	} else {
		l.cut++
	}
	return l.small(d)
}

// keptAtMost checks that the heap grew by so many bytes at most.
func (l *largeLetters) keptAtMost(t *testing.T, want int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most == 0 {
		t.Error("nothing was read")
	}
	if grew := l.most - l.before; grew > int64(want) {
		t.Errorf("%d MiB of letters were in memory, want at most %d", grew>>20, want>>20)
	}
}

// manyLetters is how many dead letters of largeLetter bytes the tests have. fewLetters is the memory for a few of them.
const (
	manyLetters = 48
	largeLetter = 1 << 20
	fewLetters  = 8 * largeLetter
)

// die has deliveries of some objects given up, each for the Provider of its index modulo their number.
func (w *world) die(providers ...string) (ids []string) {
	for i := range manyLetters {
		d := w.routed(providers[i%len(providers)], fmt.Sprint("app", i%3))
		ids = append(ids, d.ID)
		w.bus.publish(d)
	}
	wait(time.Minute)
	if n := len(w.bus.deadLetters()); n != manyLetters {
		w.t.Fatalf("%d dead letters", n)
	}
	return ids
}

// inOrder checks that a destination got each delivery once, and those of an object in order.
func inOrder(t *testing.T, arrived, ids []string) {
	t.Helper()
	for object := range 3 {
		var want, got []string
		for i := object; i < len(ids); i += 3 {
			want = append(want, ids[i])
		}
		for _, id := range arrived {
			if slices.Contains(want, id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("app%d got %v\ninstead of %v", object, got, want)
		}
	}
}

// T6, E4: the dead letters of one Provider may be larger than the memory. Fails when a replay keeps the letters, when it
// publishes one cut, or when it gives the letters their places as each is published.
func TestT6TheReplayOfAMendedProviderKeepsFewDeadLettersInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		_, stop := w.run()
		ids := w.die("chat")
		w.bus.large.begin(largeLetter)
		dest.mended.Store(true)
		w.version("chat", "2", dest)
		for i := range 3 { // they come before the first letter is published, and go after the last
			next := w.routed("chat", fmt.Sprint("app", i))
			ids = append(ids, next.ID)
			w.bus.publish(next)
		}
		wait(time.Minute)
		w.bus.large.keptAtMost(t, fewLetters)
		inOrder(t, dest.ids(), ids)
		if l := &w.bus.large; l.whole != manyLetters || l.cut != 0 || len(w.bus.deadLetters()) != 0 || !w.bus.empty() {
			t.Errorf("%d were published whole, %d cut, %d are left", l.whole, l.cut, len(w.bus.deadLetters()))
		}
		stop()
	})
}

// Fails when the letters of Providers that are mended at once are in memory together.
func TestT6ReplaysOfManyProvidersTogetherKeepFewDeadLettersInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		var names []string
		for i := range manyLetters {
			names = append(names, fmt.Sprint("chat-", i))
			w.version(names[i], "1", dest)
		}
		_, stop := w.run()
		w.die(names...)
		w.bus.large.begin(largeLetter)
		dest.mended.Store(true)
		for _, name := range names {
			w.version(name, "2", dest)
		}
		wait(time.Minute)
		w.bus.large.keptAtMost(t, lettersAtOnce*largeLetter+fewLetters)
		if l := &w.bus.large; l.whole != manyLetters || l.cut != 0 || dest.count() != manyLetters {
			t.Errorf("%d were published whole, %d cut, %d sent", l.whole, l.cut, dest.count())
		}
		stop()
	})
}

// Fails when a request keeps the letters, or reads those that it does not want into memory.
func TestT6ARequestedReplayKeepsFewDeadLettersInMemory(t *testing.T) {
	for name, one := range map[string]bool{"all": false, "one ID": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &refusing{}
				w.version("chat", "1", dest)
				d, _, stop := w.start()
				ids := w.die("chat")
				w.bus.large.begin(largeLetter)
				dest.mended.Store(true)
				req := view.ReplayRequest{State: view.StateDead}
				if one {
					ids = ids[20:21]
					req = view.ReplayRequest{IDs: ids}
				}
				if r := replay(t, d, req); r.Replayed != len(ids) || r.More || len(r.Refused) != 0 {
					t.Errorf("%+v", r)
				}
				wait(time.Minute)
				w.bus.large.keptAtMost(t, fewLetters)
				inOrder(t, dest.ids(), ids)
				if l := &w.bus.large; l.whole != len(ids) || l.cut != 0 || len(w.bus.deadLetters()) != manyLetters-len(ids) {
					t.Errorf("%d were published whole, %d cut, %d are left", l.whole, l.cut, len(w.bus.deadLetters()))
				}
				stop()
			})
		})
	}
}

// Fails when a request keeps the events of the deliveries that it makes anew, or publishes one without its event.
func TestT6ARequestedReplayKeepsFewSentDeliveriesInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		var ids []string
		for i := range manyLetters {
			next := w.routed("chat", fmt.Sprint("app", i%3))
			ids = append(ids, next.ID)
			w.bus.publish(next)
		}
		wait(time.Minute)
		w.bus.large.begin(largeLetter)
		if r := replay(t, d, view.ReplayRequest{State: view.StateSent}); r.Replayed != manyLetters || r.More || len(r.Refused) != 0 {
			t.Errorf("%+v", r)
		}
		wait(time.Minute)
		w.bus.large.keptAtMost(t, fewLetters)
		inOrder(t, dest.ids()[:manyLetters], ids)
		inOrder(t, dest.ids()[manyLetters:], ids)
		if l := &w.bus.large; l.whole != manyLetters || l.cut != 0 {
			t.Errorf("%d were published whole, %d cut", l.whole, l.cut)
		}
		stop()
	})
}

// Fails when the count of dead letters by their Alerts keeps the letters that it reads: a worker that starts reads all of them.
func TestT6CountingDeadLettersKeepsNoneInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.version("chat", "1", &refusing{})
		_, _, stop := w.start()
		w.die("chat")
		stop()
		w.notes = newNotes(w.alerts, w.destinations)
		w.bus.large.begin(largeLetter)
		_, _, stop = w.start()
		wait(time.Minute / 2)
		w.bus.large.keptAtMost(t, fewLetters)
		if a := w.notes.ledger.Get(kindAlert, "team-a", "alert-of-chat"); a.Dead != manyLetters || !a.Counted {
			t.Errorf("%d dead letters of the Alert (counted %t)", a.Dead, a.Counted)
		}
		stop()
	})
}

// A letter can be gone when its turn comes: the bus drops the oldest by itself. Fails when another is published in its place, or when
// the others are not replayed.
func TestADeadLetterThatIsGoneHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		_, stop := w.run()
		ids := w.die("chat")
		w.bus.large.begin(1)
		dest.mended.Store(true)
		w.version("chat", "2", dest)
		published := 0
		w.bus.mu.Lock()
		w.bus.faults = func(op string) error {
			if op != "replay" {
				return nil
			}
			if published++; published == 3 {
				w.bus.dead = slices.Delete(w.bus.dead, 1, 3) // the two after the one that is being replayed
			}
			return nil
		}
		w.bus.mu.Unlock()
		wait(5 * time.Minute)
		if l := &w.bus.large; l.cut != 0 || dest.count() != len(ids)-2 || len(w.bus.deadLetters()) != 0 || !w.bus.empty() {
			t.Errorf("%d cut, %d sent, %d letters are left", l.cut, dest.count(), len(w.bus.deadLetters()))
		}
		next := w.routed("chat", "app0")
		w.bus.publish(next)
		wait(time.Minute)
		if !slices.Contains(dest.ids(), next.ID) {
			t.Error("a later delivery of the object waits for the letter that is gone")
		}
		stop()
	})
}

// T6: a Provider may have very many dead letters, and a namespace very many Providers that are mended by one Secret. Fails when a replay keeps
// of each letter more than its place and its name.
func TestT6OfALetterThatWaitsForItsReplayLittleIsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		_, stop := w.run()
		const letters = 4000
		for range letters {
			w.bus.publish(w.routed("chat", "app"))
		}
		wait(time.Minute)
		before, during := alloctest.InUse(), int64(0)
		w.bus.mu.Lock()
		w.bus.faults = func(op string) error {
			if op == "replay" && during == 0 {
				during = alloctest.InUse()
			}
			return nil
		}
		w.bus.mu.Unlock()
		dest.mended.Store(true)
		w.version("chat", "2", dest)
		wait(5 * time.Minute)
		if dest.count() != letters {
			t.Errorf("%d sent", dest.count())
		}
		if each := (during - before) / letters; during == 0 || each > 400 {
			t.Errorf("%d bytes a letter", each)
		}
		stop()
	})
}

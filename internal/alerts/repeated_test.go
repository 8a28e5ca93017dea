package alerts

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// TestE2ALetterIsReplayedBeforeItsWriteIsAnswered: a Provider is mended while the answer to the write of a dead letter is awaited. Fails
// when the message of its replay ends with the delivery that the letter is of.
func TestE2ALetterIsReplayedBeforeItsWriteIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.version("chat", "1", &refusing{})
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Minute)
		w.bus.slow(3*time.Second, "deadletter")
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Second)
		if n := len(w.bus.deadLetters()); n != 2 {
			t.Fatalf("%d dead letters", n)
		}
		w.version("chat", "2", dest)
		w.bus.publish(w.delivery("chat", "other"))
		wait(5 * time.Minute)
		stop()
		got := dest.ids()
		slices.Sort(got)
		if !slices.Equal(got, []string{"d1", "d2", "d3"}) || len(w.bus.deadLetters()) > 0 {
			t.Errorf("sent %v, %d are dead", got, len(w.bus.deadLetters()))
		}
	})
}

// TestE2BothLettersOfADeliveryAreOneReplay fails when both letters of a delivery, as a lost acknowledgement leaves them, are replayed at
// once, or when the delivery is sent twice.
func TestE2BothLettersOfADeliveryAreOneReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.version("chat", "1", &refusing{})
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Minute)
		w.bus.mu.Lock()
		again := *w.bus.dead[0]
		again.d.Reschedules++
		w.bus.nextSeq++
		again.seq = w.bus.nextSeq
		w.bus.dead = append(w.bus.dead, &again)
		w.bus.mu.Unlock()
		replays := 0
		w.bus.faults = func(op string) error {
			if op == "replay" {
				replays++
			}
			return nil
		}
		w.version("chat", "2", dest)
		wait(time.Minute)
		stop()
		if got := dest.ids(); replays != 1 || !slices.Equal(got, []string{"d1"}) {
			t.Errorf("%d replays, sent %v", replays, got)
		}
	})
}

// TestE5ALetterThatIsGoneKeepsNothingBack: the bus has dropped a letter, at its bound, between the list for a replay and its publish. Fails
// when its place stays, behind which nothing of its object is sent.
func TestE5ALetterThatIsGoneKeepsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		for i := range 3 {
			w.bus.publish(w.routed("chat", fmt.Sprint("app", i)))
		}
		wait(time.Minute)
		dest.mended.Store(true)
		reads := 0
		w.bus.faults = func(op string) error { // its caller has the lock of the bus
			if op == "deadletters" {
				if reads++; reads == 4 { // the first read for a publish
					w.bus.dead = nil
				}
			}
			return nil
		}
		replay(t, d, view.ReplayRequest{State: view.StateDead})
		var want []string
		for i := range 3 {
			next := w.routed("chat", fmt.Sprint("app", i))
			want = append(want, next.ID)
			w.bus.publish(next)
		}
		wait(time.Second)
		got := dest.ids()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("after a second: sent %v, not %v", got, want)
		}
		stop()
	})
}

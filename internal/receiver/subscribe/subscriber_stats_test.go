package subscribe

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/receiver"
)

// deliveries returns the counts of the Receiver "team/name".
func (s *stage) deliveries(name string) receiver.Deliveries {
	return s.table.namespaces["team"].named[name].stats.Read()
}

// forged returns an event about an object that the watchers do not know.
func forged(object string) *event.Record {
	r := about(object)
	r.Known = false
	return r
}

// Fails when an outcome is not counted or under another word, when the trigger for delayed events counts as one more event, and when
// another Receiver's events are counted.
func TestEventOutcomesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := subscription("team/quiet")
		quiet.Sources[0].Name = "other"
		s := newStage(t, subscription("team/r"), quiet)
		defer s.run()()
		start := time.Now().UTC()
		want := receiver.Deliveries{UID: "uid-r", Since: start}
		after := func(step string, change func(*receiver.Deliveries, time.Time)) {
			t.Helper()
			change(&want, time.Now().UTC())
			if diff := cmp.Diff(want, s.deliveries("r")); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", step, diff)
			}
			s.wait(lap)
		}
		for range loopRounds {
			s.must("ImagePolicy/app")
			after("one that triggers", func(d *receiver.Deliveries, now time.Time) {
				d.Accepted, d.Last = d.Accepted+1, receiver.Outcome{Time: now, ID: "ImagePolicy/app", Result: "accepted"}
			})
		}
		for range 2 {
			s.must("ImagePolicy/app")
			after("one that is held back", func(d *receiver.Deliveries, now time.Time) {
				d.Accepted, d.Folded, d.Last = d.Accepted+1, d.Folded+1, receiver.Outcome{Time: now, ID: "ImagePolicy/app", Result: "folded"}
			})
		}
		if n := s.wait(minLoopPause); n != 1 {
			t.Errorf("%d triggers after the pause", n)
		}
		after("the trigger for what was held back", func(*receiver.Deliveries, time.Time) {})
		if err := s.tell(forged("ImagePolicy/app")); err != nil {
			t.Fatal(err)
		}
		after("a forged one", func(d *receiver.Deliveries, now time.Time) {
			d.Refused = 1
			d.LastError = receiver.Outcome{Time: now, Result: "unknown", Reason: "no object is known of the event's kind, name and UID"}
		})
		if diff := cmp.Diff(receiver.Deliveries{UID: "uid-quiet", Since: start}, s.deliveries("quiet")); diff != "" {
			t.Errorf("of the Receiver that got none (-want +got):\n%s", diff)
		}
	})
}

// The sum over all replicas counts each event once, whichever replica handles it. Fails when an event is counted before its trigger is
// stored, or again when it is handled again.
func TestAnEventIsCountedOnceItsTriggerIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		full := errors.New("full")
		counts := func(when string, want int64) {
			t.Helper()
			if d := s.deliveries("r"); d.Accepted != want || d.Refused != want {
				t.Errorf("%s %d are accepted and %d refused, want %d", when, d.Accepted, d.Refused, want)
			}
		}
		for round := range int64(2) {
			stop := s.run()
			batch := []*event.Record{about("ImagePolicy/app"), forged("ImagePolicy/app")}
			s.failWith(full)
			if err := s.tell(batch...); !errors.Is(err, full) {
				t.Errorf("first try: %v", err)
			}
			if err := s.again(batch...); !errors.Is(err, full) {
				t.Errorf("second try: %v", err)
			}
			counts("with a full disk", round)
			if round == 1 { // the next worker reads them again
				stop()
				stop = s.run()
			}
			s.failWith(nil)
			if err := s.again(batch...); err != nil {
				t.Errorf("last try: %v", err)
			}
			counts("with room again", round+1)
			stop()
		}
	})
}

// Fails when an edit restarts the counts, when a Receiver that was created again continues its predecessor's, and when those of a deleted
// one are kept.
func TestCountsAreKeptWhileAReceiverIsTheSameObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		defer s.run()()
		s.must("ImagePolicy/app")
		first := s.deliveries("r")
		put := func(change func(*Subscription)) receiver.Deliveries {
			t.Helper()
			elapse(time.Minute)
			edited := subscription("team/r")
			change(edited)
			if err := s.table.Put(edited); err != nil {
				t.Fatal(err)
			}
			return s.deliveries("r")
		}
		if diff := cmp.Diff(first, put(func(e *Subscription) { e.Generation, e.Suspended = 2, true })); diff != "" {
			t.Errorf("after an edit (-want +got):\n%s", diff)
		}
		another := put(func(e *Subscription) { e.UID = "uid-2" })
		if diff := cmp.Diff(receiver.Deliveries{UID: "uid-2", Since: time.Now().UTC()}, another); diff != "" {
			t.Errorf("of a new Receiver of that name (-want +got):\n%s", diff)
		}
		s.table.Delete("team", "r")
		for key := range s.table.Stats() {
			t.Errorf("after its deletion there are statistics of %s", key)
		}
	})
}

// records keep results by Receiver.
type records map[string][]view.Webhook

func (r records) RecordWebhooks(_ context.Context, namespace, name string, ws []view.Webhook) error {
	r[namespace+"/"+name] = append(r[namespace+"/"+name], ws...)
	return nil
}

// Fails when only webhooks are reported, when a Receiver without events is reported, when events are not listed under their IDs, and when a
// forged one is.
func TestEventOutcomesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := newStage(t, subscription("team/r"), subscription("other/r")), reports{}
		results := records{}
		defer s.run()()
		reporter, err := receiver.NewReporter(receiver.ReporterOptions{
			Sources: []receiver.Source{s.table}, Reports: told, Records: results, Replica: "r1", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- reporter.Run(ctx) }()
		begin := time.Now().UTC()
		s.must("ImagePolicy/app")
		s.must("ImagePolicy/app")
		if err := s.tell(forged("ImagePolicy/app")); err != nil {
			t.Error(err)
		}
		s.wait(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := told["Deliveries/team/r/r1"]; len(told) != 1 || got.Accepted != 2 || got.UID != "uid-r" {
			t.Errorf("told is %+v", told)
		}
		event := view.Webhook{
			Namespace: "team", Receiver: "r", Time: begin, ID: "ImagePolicy/app", Result: "accepted", Count: 1, Targets: []string{"ImageUpdateAutomation/app"},
		}
		refused := view.Webhook{
			Namespace: "team", Receiver: "r", Time: begin, Result: "unknown", Count: 1,
			Reason: "no object is known of the event's kind, name and UID",
		}
		if diff := cmp.Diff(records{"team/r": {refused, event, event}}, results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

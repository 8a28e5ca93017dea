package apply

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// lateWatcher is a Selector that has seen no object yet.
type lateWatcher struct {
	fakeSelector
	seen atomic.Bool
}

func (l *lateWatcher) Selects(namespace string, target event.Target, name string) (selected, watched bool) {
	selected, watched = l.fakeSelector.Selects(namespace, target, name)
	return selected && l.seen.Load(), watched
}

// T4 with replicas: the replica that accepted the webhook may have seen its target before this one. Fails when a trigger ends at once
// because its Receiver, its target or the object that a filter chose is not known here; when it is tried for ever; and when a trigger
// that is known to be no longer asked for is delayed.
func TestT4ATriggerThatComesBeforeItsReceiverIsSeenHereIsApplied(t *testing.T) {
	all := repo("*")
	for name, c := range map[string]struct {
		target event.Target
		// before sets the known state of the Receiver when the trigger is delivered, seen the state known 300 ms later.
		before, seen func(*world, Receiver)
		// at and later are the states of the message after a second, and after unseenFor.
		at, later string
		wrote     bool
	}{
		"the Receiver is seen later": {
			target: repo("app"), seen: func(w *world, r Receiver) { w.receivers.put(r) }, at: "done", later: "done", wrote: true,
		},
		"the Receiver took the place of one of that name": {
			target: repo("app"), at: "done", later: "done", wrote: true,
			before: func(w *world, r Receiver) { r.UID, r.Generation = "older", 7; w.receivers.put(r) },
			seen:   func(w *world, r Receiver) { w.receivers.put(r) },
		},
		"the target is seen later": {
			target: repo("app"), at: "done", later: "done", wrote: true,
			before: func(w *world, r Receiver) {
				r.Generation, r.Targets = 1, []event.Target{repo("other")}
				w.receivers.put(r)
			},
			seen: func(w *world, r Receiver) { w.receivers.put(r) },
		},
		"the object that a filter chose is seen later": {
			target: all, at: "done", later: "done", wrote: true,
			before: func(w *world, r Receiver) { w.receivers.put(r) },
			seen:   func(w *world, _ Receiver) { w.opts.Selector.(*lateWatcher).seen.Store(true) },
		},
		"the Receiver is never seen": {target: repo("app"), at: "held", later: "done"},
		"the target was taken out": {
			target: repo("app"), at: "done", later: "done",
			before: func(w *world, r Receiver) {
				r.Generation, r.Targets = 3, []event.Target{repo("other")}
				w.receivers.put(r)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(o *Options) { o.Selector = &lateWatcher{fakeSelector: fakeSelector{"": []string{"app"}}} })
				defer w.stop()
				r := w.receiver("team-a", "github", "deployer", c.target)
				w.receivers.remove("team-a", "github")
				r.Generation, r.Created = 2, time.Now()
				if c.before != nil {
					c.before(w, r)
				}
				webhook := trigger(r, r.Targets[0].Named("app"))
				webhook.Generation = r.Generation
				h := w.send(webhook)
				pass(300 * time.Millisecond)
				if len(w.api.seen()) > 0 {
					t.Errorf("written before: %+v", w.api.seen())
				}
				if c.seen != nil {
					c.seen(w, r)
				}
				pass(time.Second)
				w.want(h, c.at)
				pass(unseenFor + 10*time.Second)
				w.want(h, c.later)
				if wrote := w.stampedFrom(webhook.Accepted, "app"); wrote != c.wrote {
					t.Errorf("written: %+v", w.api.seen())
				}
			})
		})
	}
}

// T4 with replicas: fails when a trigger is given up before this replica can have noticed that its connection to the API server is gone, which
// takes client-go 45 s.
func TestT4ATriggerOutlastsAWatchThatBrokeWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		w.receivers.remove("team-a", "github")
		r.Created = time.Now()
		webhook := trigger(r, r.Targets[0])
		webhook.Generation = 1
		h := w.send(webhook)
		pass(50 * time.Second)
		w.want(h, "held")
		w.receivers.put(r)
		pass(20 * time.Second)
		w.want(h, "done")
		if !w.stampedFrom(webhook.Accepted, "app") {
			t.Errorf("written: %+v", w.api.seen())
		}
	})
}

// T4: fails when a trigger is given up because its Receiver, or the state of it that names the target, waits for its namespace's turn to
// compile, which may take minutes after a start.
func TestT4ATriggerOutlastsTheWaitUntilItsReceiverIsCompiled(t *testing.T) {
	for name, before := range map[string][]event.Target{"the Receiver": nil, "its present state": {repo("former")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				r := w.receiver("team-a", "github", "deployer", repo("app"))
				w.receivers.remove("team-a", "github")
				if before != nil {
					w.receiver("team-a", "github", "deployer", before...)
				}
				w.receivers.wait(r.UID)
				webhook := trigger(r, r.Targets[0])
				webhook.Generation = 2
				h := w.send(webhook)
				pass(5 * time.Minute)
				w.want(h, "held")
				w.receivers.wait("")
				w.receivers.put(r)
				pass(2 * time.Minute)
				w.want(h, "done")
				if !w.stampedFrom(webhook.Accepted, "app") {
					t.Errorf("written: %+v", w.api.seen())
				}
			})
		})
	}
}

// T4 with replicas: fails when a trigger is given up before its Receiver is seen here because the clock of the replica that accepted it is behind
// by more than a minute, or because it waited in the stream for as long; and when it is kept for longer than another.
func TestT4ATriggerWaitsForItsReceiverByTheClockOfThisReplica(t *testing.T) {
	for name, seen := range map[string]bool{"the Receiver is seen": true, "it is never seen": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				r := w.receiver("team-a", "github", "deployer", repo("app"))
				w.receivers.remove("team-a", "github")
				webhook := trigger(r, r.Targets[0])
				webhook.Generation, webhook.Accepted = 1, time.Now().Add(-2*unseenFor)
				h := w.send(webhook)
				pass(unseenFor / 2)
				w.want(h, "held")
				if seen {
					w.receivers.put(r)
				}
				pass(unseenFor)
				w.want(h, "done")
				if wrote := w.stampedFrom(webhook.Accepted, "app"); wrote != seen {
					t.Errorf("written: %+v", w.api.seen())
				}
			})
		})
	}
}

package apply

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// told is one call of Options.Applied.
type told struct {
	Namespace, Key string
	Stamp          time.Time
}

// tellings remembers the calls of Options.Applied.
type tellings struct {
	mu  sync.Mutex
	all []told
}

func (s *tellings) hear(o *Options) {
	o.Applied = func(namespace, key string, stamp time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, told{namespace, key, stamp})
	}
}

func (s *tellings) take() []told {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

func tells(t event.Trigger) told { return told{t.Namespace, t.Key, t.Accepted} }

// A repeated webhook is spared its trigger by what is told here, so T4 hangs on it. Fails when a trigger is told of that ended in
// another way than by a request for each of its objects, or before it did.
func TestT4OnlyWhatWasAppliedIsToldOf(t *testing.T) {
	only := func(name string, code int) func(patch) (int, http.Header) {
		return func(p patch) (int, http.Header) {
			if p.object() == name {
				return code, nil
			}
			return http.StatusOK, nil
		}
	}
	for name, tc := range map[string]struct {
		target event.Target
		answer func(patch) (int, http.Header)
		wait   time.Duration
		told   bool
	}{
		"one object":                        {repo("app"), always(http.StatusOK), 0, true},
		"all that a selector found":         {selecting("a", "1"), always(http.StatusOK), 0, true},
		"an object that is not there":       {repo("app"), always(http.StatusNotFound), 0, false},
		"an object that is refused for now": {repo("app"), always(http.StatusForbidden), time.Minute, false},
		"an object that is refused":         {repo("app"), always(http.StatusForbidden), 20 * time.Minute, false},
		"an object that fails":              {repo("app"), always(http.StatusInternalServerError), time.Minute, false},
		"one of a selector's is not there":  {selecting("a", "1"), only("one", http.StatusNotFound), 0, false},
		"one of a selector's is refused":    {selecting("a", "1"), only("two", http.StatusForbidden), 20 * time.Minute, false},
		"a selector that finds nothing":     {selecting("a", "2"), always(http.StatusOK), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s tellings
				w := newWorld(t, s.hear)
				defer w.stop()
				w.selector["a=1"] = []string{"one", "two"}
				w.api.respond(tc.answer)
				sent := trigger(w.receiver("team-a", "hook", "default", tc.target), tc.target)
				w.send(sent)
				pass(2*time.Second + tc.wait)
				var want []told
				if tc.told {
					want = []told{tells(sent)}
				}
				if diff := cmp.Diff(want, s.take()); diff != "" {
					t.Errorf("told of (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Fails when a trigger that came during the request of another is told of with that one, or that one's stamp with it.
func TestT4WhatIsToldOfIsTheNewestTriggerThatWasApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s tellings
		w := newWorld(t, s.hear)
		defer w.stop()
		w.api.delay = 500 * time.Millisecond
		r := w.receiver("team-a", "hook", "default", repo("app"))
		w.hook(r)
		pass(200 * time.Millisecond)
		second := trigger(r, r.Targets[0])
		w.send(second)
		pass(500 * time.Millisecond)
		if got := s.take(); len(got) != 0 {
			t.Errorf("after the first request: %v", got)
		}
		pass(3 * time.Second)
		if diff := cmp.Diff([]told{tells(second)}, s.take()); diff != "" {
			t.Errorf("after the second (-want +got):\n%s", diff)
		}
	})
}

// Fails when what goes back to the bus is told of.
func TestT4WhatIsGivenBackIsNotToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s tellings
		w := newWorld(t, s.hear)
		w.api.respond(always(http.StatusForbidden))
		w.hook(w.receiver("team-a", "hook", "default", repo("app")))
		pass(2 * time.Second)
		w.stop()
		if got := s.take(); len(got) != 0 {
			t.Errorf("told of %v", got)
		}
	})
}

// T4. A trigger that came late stands for webhooks until it is taken (event.Taker). Fails when a request stamped before that is all
// that it gets.
func TestT4WhatATriggerStandsForWhileARequestIsUnderWayGetsOneToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.delay = 3 * time.Second // longer than the late one waits to be resolved
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		late := trigger(r, r.Targets[0])
		early := late
		early.Accepted = early.Accepted.Add(-time.Millisecond)
		w.send(early)
		pass(100 * time.Millisecond)
		h := w.send(late) // accepted no later than the request was stamped
		pass(10 * time.Second)
		w.want(h, "done")
		patches := w.api.seen()
		stamp, err := time.Parse(time.RFC3339Nano, patches[len(patches)-1].stamp)
		if err != nil || h.taken.IsZero() || stamp.Before(h.taken) {
			t.Errorf("the last of %d requests is stamped %v, the trigger taken %v: %v", len(patches), stamp, h.taken, err)
		}
	})
}

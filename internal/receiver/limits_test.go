package receiver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

// answers sends n valid webhooks to path, one after the other, and returns their status codes.
func answers(w http.Handler, path string, n int) []int {
	var codes []int
	for range n {
		codes = append(codes, do(w, push(path, token, "{}")).StatusCode)
	}
	return codes
}

// T4, T6: fails when a webhook over its namespace's budget is refused or not published, when a namespace has one budget per Receiver, or
// when two namespaces share one.
func TestT4OverItsNamespacesBudgetADeliveryIsFoldedAndStillPublished(t *testing.T) {
	limits := unlimited()
	limits.Tenant = limit.Budget{Rate: 0.001, Burst: 3}
	one, two, other := newHook(t, "team-a/one"), newHook(t, "team-a/two"), newHook(t, "team-b/one")
	bus := &recorder{}
	w := newWebhooks(t, newTable(t, limits, one, two, other), bus)
	got := append(answers(w, one.Path, 2), answers(w, two.Path, 3)...)
	got = append(got, answers(w, other.Path, 1)...)
	if diff := cmp.Diff([]int{200, 200, 200, 202, 202, 200}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if bus.Count() != 6 {
		t.Errorf("%d publishes, want 6", bus.Count())
	}
}

// T6: fails when a webhook over its Receiver's budget takes from its namespace's.
func TestT6AReceiverOverItsBudgetTakesNothingOfItsNamespaces(t *testing.T) {
	limits := unlimited()
	limits.Receiver, limits.Tenant = limit.Budget{Rate: 0.001, Burst: 2}, limit.Budget{Rate: 0.001, Burst: 4}
	loud, quiet := newHook(t, "team-a/loud"), newHook(t, "team-a/quiet")
	w := newWebhooks(t, newTable(t, limits, loud, quiet), &recorder{})
	answers(w, loud.Path, 100)
	if diff := cmp.Diff([]int{200, 200}, answers(w, quiet.Path, 2)); diff != "" {
		t.Errorf("the answers of the other (-want +got):\n%s", diff)
	}
}

// Fails when the Receiver's own limit raises the installation's, or is ignored.
func TestAReceiversOwnRateLimitHoldsBelowTheInstallations(t *testing.T) {
	for name, tc := range map[string]struct {
		own, ceiling    limit.Budget
		atOnce, inTwoMs int
	}{
		"its own is narrower":      {limit.Budget{Rate: 1000, Burst: 2}, limit.Budget{Rate: 2000, Burst: 5}, 2, 2},
		"its own is wider":         {limit.Budget{Rate: 9000, Burst: 9}, limit.Budget{Rate: 1000, Burst: 5}, 5, 2},
		"narrower in one of both":  {limit.Budget{Rate: 1000, Burst: 9}, limit.Budget{Rate: 9000, Burst: 5}, 5, 2},
		"none":                     {limit.Budget{}, limit.Budget{Rate: 1000, Burst: 5}, 5, 2},
		"none of the installation": {limit.Budget{Rate: 1000, Burst: 2}, limit.Budget{}, 2, 2},
		"none of both":             {limit.Budget{}, limit.Budget{}, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := unlimited()
				limits.Receiver = tc.ceiling
				hook := newHook(t, "team-a/hook", func(h *Hook) { h.RateLimit = tc.own })
				w := newWebhooks(t, newTable(t, limits, hook), &recorder{})
				full := func() (n int) {
					for _, code := range answers(w, hook.Path, 10) {
						if code == http.StatusOK {
							n++
						}
					}
					return n
				}
				if n := full(); n != tc.atOnce {
					t.Errorf("%d of ten at once are answered in full, want %d", n, tc.atOnce)
				}
				elapse(2 * time.Millisecond)
				if n := full(); n != tc.inTwoMs {
					t.Errorf("%d of ten after 2 ms, want %d", n, tc.inTwoMs)
				}
			})
		})
	}
}

// Fails when a change of the Receiver's limit makes a new bucket, or has no effect.
func TestAChangeOfItsRateLimitRefillsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := func(b limit.Budget) *Hook { return newHook(t, "team-a/hook", func(h *Hook) { h.RateLimit = b }) }
		hook := limited(limit.Budget{Rate: 1, Burst: 3})
		table := newTable(t, DefaultLimits(), hook)
		w := newWebhooks(t, table, &recorder{})
		put := func(b limit.Budget) {
			t.Helper()
			if err := table.Put("team-a/hook", limited(b)); err != nil {
				t.Fatal(err)
			}
		}
		answers(w, hook.Path, 3)
		for _, b := range []limit.Budget{{Rate: 1, Burst: 50}, {Rate: 10, Burst: 3}, {}, {Rate: 10, Burst: 1}} {
			put(b)
			if diff := cmp.Diff([]int{202}, answers(w, hook.Path, 1)); diff != "" {
				t.Errorf("after a change to %v (-want +got):\n%s", b, diff)
			}
		}
		elapse(time.Second)
		if diff := cmp.Diff([]int{200, 202}, answers(w, hook.Path, 2)); diff != "" {
			t.Errorf("under the new limit (-want +got):\n%s", diff)
		}
	})
}

// Fails when a 0 sets a budget or a cap to nothing instead of switching it off.
func TestALimitOfZeroIsOff(t *testing.T) {
	limits := Limits{Requests: RequestCaps(0), Bodies: BodyCaps(0), Triggers: TriggerCaps(0)}
	hook := newHook(t, "team-a/hook", keeping)
	w := newWebhooks(t, newTable(t, limits, hook), &recorder{})
	big := strings.Repeat("x", limit.MaxBody)
	for range 300 {
		for want, r := range map[int]*http.Request{
			404: push("/hook/x", token, "{}"), 400: push(hook.Path, "other", "{}"), 200: push(hook.Path, token, "{}"),
		} {
			if resp := do(w, r); resp.StatusCode != want {
				t.Fatalf("got %d, want %d", resp.StatusCode, want)
			}
		}
	}
	if resp := do(w, push(hook.Path, token, big)); resp.StatusCode != http.StatusOK {
		t.Errorf("a large body: %d, want 200", resp.StatusCode)
	}
}

// keeping is a hook whose bodies are kept in memory.
func keeping(h *Hook) { h.Filter = keepBodies{h.Targets} }

type keepBodies struct{ targets []event.Trigger }

func (keepBodies) ReadsBody() bool { return true }

func (k keepBodies) Select(context.Context, []byte, []byte) ([]event.Trigger, error) {
	return k.targets, nil
}

// T6: fails without the cap on bodies at any of the three levels, when it counts bytes that fit the first buffer, or when a body's capacity
// is not released.
func TestT6BodiesThatAreKeptHaveTheirShareAndNoMore(t *testing.T) {
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		caps   Caps
		floods []string // each by one endless body of 2 MiB: one within the shared capacity, one in addition
		free   map[string]int
	}{
		"of a path": {
			Caps{Path: 3 * mib, Namespace: 100 * mib, Total: 100 * mib},
			[]string{"team-a/one", "team-a/one"},
			map[string]int{"team-a/one": 503, "team-a/two": 200, "team-b/one": 200},
		},
		"of a namespace": {
			Caps{Path: 3 * mib, Namespace: 3 * mib, Total: 100 * mib},
			[]string{"team-a/one", "team-a/one"},
			map[string]int{"team-a/one": 503, "team-a/two": 503, "team-b/one": 200},
		},
		"of all": {
			Caps{Path: 3 * mib, Namespace: 3 * mib, Total: 3 * mib},
			[]string{"team-a/one", "team-a/one"},
			map[string]int{"team-a/one": 503, "team-a/two": 503, "team-b/one": 503},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := unlimited()
				limits.Bodies = tc.caps
				table := newTable(t, limits)
				hooks := map[string]*Hook{}
				for key := range tc.free {
					hooks[key] = newHook(t, key, keeping)
					if err := table.Put(key, hooks[key]); err != nil {
						t.Fatal(err)
					}
				}
				w := newWebhooks(t, table, &recorder{})
				ctx, end := context.WithCancel(t.Context())
				defer end()
				var wg sync.WaitGroup
				for _, key := range tc.floods {
					wg.Go(func() {
						r := push(hooks[key].Path, "other", "")
						r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 2*mib)), &dawdling{ctx: ctx}))
						r.ContentLength = -1
						do(w, r)
					})
				}
				synctest.Wait()
				for key, want := range tc.free {
					body := strings.Repeat("x", 2*mib)
					if resp := do(w, push(hooks[key].Path, token, body)); resp.StatusCode != want {
						t.Errorf("2 MiB for %s: %d, want %d", key, resp.StatusCode, want)
					}
					if resp := do(w, push(hooks[key].Path, token, "{}")); resp.StatusCode != http.StatusOK {
						t.Errorf("a small body for %s: %d, want 200", key, resp.StatusCode)
					}
				}
				end()
				wg.Wait()
				if !table.all.bodies.Idle() {
					t.Error("capacity of bodies is still held")
				}
			})
		})
	}
}

// T6: fails when the slow bodies of a few namespaces leave no capacity for those of another, or when a namespace's reserve is not released.
func TestT6BodiesLeaveEveryNamespaceItsReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := unlimited()
		limits.Bodies = DefaultLimits().Bodies
		free := newHook(t, "team-free/one", keeping)
		table := newTable(t, limits, free)
		w := newWebhooks(t, table, &recorder{})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var wg sync.WaitGroup
		slow := func(key string, n int) {
			hook := newHook(t, key, keeping)
			if err := table.Put(key, hook); err != nil {
				t.Fatal(err)
			}
			for range n {
				wg.Go(func() {
					r := push(hook.Path, "other", "")
					r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), &dawdling{ctx: ctx})) // a buffer of 2 MiB
					r.ContentLength = -1
					do(w, r)
				})
			}
			synctest.Wait()
		}
		for namespace := range 4 {
			for receiver := range 4 {
				slow(fmt.Sprintf("team-%d/%d", namespace, receiver), 2)
			}
		}
		slow("team-0/last", 1) // what is left, and what may be kept in addition
		for range 3 {
			begin := time.Now()
			resp := do(w, push(free.Path, token, strings.Repeat("x", bodyReserve-1)))
			if resp.StatusCode != http.StatusOK {
				t.Errorf("a webhook of another namespace: %d %s after %s, want 200", resp.StatusCode, bodyOf(t, resp), time.Since(begin))
			}
		}
		end()
		wg.Wait()
		if !table.all.bodies.Idle() {
			t.Error("capacity of bodies is still held")
		}
	})
}

func TestLimitsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Limits){
		"a negative rate":             func(l *Limits) { l.Unknown.Rate = -1 },
		"a rate without burst":        func(l *Limits) { l.Failure.Burst = 0 },
		"a rate that is no number":    func(l *Limits) { l.Tenant.Rate = math.NaN() },
		"a rate without end":          func(l *Limits) { l.Receiver.Rate = math.Inf(1) },
		"a path above its namespace":  func(l *Limits) { l.Requests.Path = l.Requests.Namespace + 1 },
		"a namespace above the total": func(l *Limits) { l.Bodies.Namespace = l.Bodies.Total + 1 },
		"no capacity for one request": func(l *Limits) { l.Requests.Path = 0 },
		"no capacity for one body":    func(l *Limits) { l.Bodies = BodyCaps(limit.MaxBody - 1) },
		"a negative reserve":          func(l *Limits) { l.Requests.Reserve = -1 },
		"a negative wait":             func(l *Limits) { l.Wait = -1 },
	} {
		l := DefaultLimits()
		change(&l)
		if _, err := NewTable(l, nil); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Fails when a namespace with too many pending triggers is answered as if the bus were broken, which is a warning in the log.
func TestAWebhookOfANamespaceWithTooManyTriggersIs503(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	var lines bytes.Buffer
	w, err := NewWebhooks(WebhooksOptions{
		Table: newTable(t, unlimited(), hook), Log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Triggers: triggersFunc(func(context.Context, event.Trigger) error { return fmt.Errorf("bus: %w", event.ErrTooManyTriggers) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	resp := do(w, push(hook.Path, token, "{}"))
	if want := `{"reason":"too many targets of this namespace are waiting"}`; resp.StatusCode != 503 || bodyOf(t, resp) != want {
		t.Errorf("got %d, want 503 and %s", resp.StatusCode, want)
	}
	if lines.Len() > 0 {
		t.Errorf("logged: %s", lines.String())
	}
}

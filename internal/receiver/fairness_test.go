package receiver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// T6: fails when a failure on a known path is charged to the address, or before the check. One Git host's or ingress's address carries
// every tenant's webhooks.
func TestT6AValidWebhookFromAnAddressThatFailedTenThousandTimes(t *testing.T) {
	mine, theirs := newHook(t, "team-a/hook"), newHook(t, "team-b/hook")
	bus := &recorder{}
	w := newWebhooks(t, newTable(t, DefaultLimits(), mine, theirs), bus)
	answers := map[int]int{}
	for range 5000 {
		answers[do(w, push(Path("x", "x", "x"), token, "{}")).StatusCode]++
		answers[do(w, push(mine.Path, "other", "{}")).StatusCode]++
	}
	if answers[429] < 9000 || answers[200]+answers[503] != 0 {
		t.Errorf("the failures were answered %v", answers)
	}
	for _, path := range []string{mine.Path, theirs.Path} { // the attacked path, and another tenant's
		if resp := do(w, push(path, token, "{}")); resp.StatusCode != http.StatusOK {
			t.Errorf("a valid webhook: %d, want 200", resp.StatusCode)
		}
	}
}

// dawdling is a body that ends only with its context.
type dawdling struct {
	ctx  context.Context
	once sync.Once
}

func (d *dawdling) Read(p []byte) (int, error) {
	var n int
	d.once.Do(func() { n = copy(p, "{") })
	if n == 0 {
		<-d.ctx.Done()
		return 0, io.EOF
	}
	return n, nil
}

func (d *dawdling) Close() error { return nil }

// smallLimits admit 4 at once on a path, 8 in a namespace, 16 in all, and 1 more for each namespace.
func smallLimits() Limits {
	l := unlimited()
	l.Requests = Caps{Path: 4, Namespace: 8, Total: 16, Reserve: 1}
	return l
}

// T6: fails without the cap on a path, without the cap on a namespace, without a namespace's reserve, or when capacity is not released.
func TestT6AFloodOfSlowBodiesLeavesOthersTheirCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		floods []string // each by 20 slow requests
		free   string   // answers 200 without a wait for capacity,
		atOnce int      // while this many requests are being read
	}{
		"one path leaves its namespace's others": {[]string{"team-a/one"}, "team-a/two", 4},
		"one namespace leaves the others": {
			[]string{"team-a/1", "team-a/2", "team-a/3", "team-a/4", "team-a/5"}, "team-b/one", 4,
		},
		"all other namespaces leave the reserve": {
			[]string{"team-a/one", "team-a/two", "team-c/one", "team-c/two", "team-d/one", "team-d/two"}, "team-b/one", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				table := newTable(t, smallLimits())
				hooks := map[string]*Hook{}
				for _, key := range append(tc.floods, tc.free) {
					hooks[key] = newHook(t, key)
					if err := table.Put(key, hooks[key]); err != nil {
						t.Fatal(err)
					}
				}
				w := newWebhooks(t, table, &recorder{})
				var wg sync.WaitGroup
				for _, key := range tc.floods {
					for range 20 {
						wg.Go(func() {
							r := push(hooks[key].Path, token, "{}")
							r.Body, r.ContentLength = &dawdling{ctx: ctx}, -1
							do(w, r)
						})
					}
				}
				synctest.Wait()
				var valid sync.WaitGroup
				for range tc.atOnce {
					valid.Go(func() {
						begin := time.Now()
						brief, done := context.WithTimeout(t.Context(), time.Second)
						defer done()
						r := push(hooks[tc.free].Path, token, "{")
						r.Body, r.ContentLength = &dawdling{ctx: brief}, -1
						if resp := do(w, r); resp.StatusCode != http.StatusOK {
							t.Errorf("a valid webhook beside the flood: %d, want 200", resp.StatusCode)
						}
						if took := time.Since(begin); took != time.Second {
							t.Errorf("it took %s, and a second to send", took)
						}
					})
				}
				valid.Wait()
				end()
				wg.Wait()
				if !table.all.requests.Idle() {
					t.Error("capacity of the total is still held")
				}
				for _, r := range hooks {
					if !table.capacity(table.first(r.Path)).requests.Idle() {
						t.Errorf("capacity of %s/%s is still held", r.Namespace, r.Name)
					}
				}
				for namespace, n := range table.tenants {
					if !table.ofTenant(n).requests.Idle() {
						t.Errorf("capacity of %s is still held", namespace)
					}
				}
			})
		})
	}
}

// Fails when webhooks do not wait for capacity (a burst of valid webhooks would be refused), or when the wait has no end.
func TestAWebhookWaitsForRoomAndIs503WhenThereIsNoneInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		holds  time.Duration
		status int
	}{
		"capacity in time":    {time.Second, http.StatusOK},
		"no capacity in time": {5 * time.Second, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithTimeout(t.Context(), tc.holds)
				defer end()
				hook := newHook(t, "team-a/hook")
				w := newWebhooks(t, newTable(t, smallLimits(), hook), &recorder{})
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						r := push(hook.Path, token, "{}")
						r.Body, r.ContentLength = &dawdling{ctx: ctx}, -1
						do(w, r)
					})
				}
				synctest.Wait()
				begin := time.Now()
				resp := do(w, push(hook.Path, token, "{}"))
				if resp.StatusCode != tc.status {
					t.Errorf("got %d, want %d", resp.StatusCode, tc.status)
				}
				if took := time.Since(begin); took != min(tc.holds, smallLimits().Wait) {
					t.Errorf("answered after %s", took)
				}
				if tc.status == 503 && resp.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				wg.Wait()
			})
		})
	}
}

// T4 and T6 over real connections: a thousand valid webhooks at once for one Receiver are all accepted while the bus is slow, each stamped
// with its arrival. Fails when the wait for the bus counts against the caps on reading.
func TestT4AThousandWebhooksAtOnceAreAcceptedAndNoneRefused(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	var mu sync.Mutex
	publishes := 0
	begin := time.Now()
	bus := triggersFunc(func(ctx context.Context, tr event.Trigger) error {
		timer := time.NewTimer(20 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
		mu.Lock()
		defer mu.Unlock()
		publishes++
		if tr.Accepted.Before(begin) {
			t.Error("a trigger is older than the flood")
		}
		return ctx.Err()
	})
	limits := smallLimits()
	limits.Wait = 20 * time.Second // of a slow machine
	w := newWebhooks(t, newTable(t, limits, hook), bus)
	base, _ := serveReal(t, w, nil)
	c := client(t, 200)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for range 5 {
				if status, err := send(t.Context(), c, base+hook.Path, token, "{}"); err != nil || status != http.StatusOK {
					t.Errorf("got %d, %v", status, err)
				}
			}
		})
	}
	wg.Wait()
	if publishes != 1000 {
		t.Errorf("%d publishes for 1,000 webhooks", publishes)
	}
}

// A tenant's senders that hang up must not hide in the log that the bus does not store others' webhooks. Fails when a webhook that was not
// stored for that reason is a warning, or when one that the bus refused is none because its sender hung up later.
func TestASenderThatHangsUpIsNoWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		hangsUp bool
		want    string
	}{
		"it hangs up": {true, "level=INFO"}, "the bus fails": {false, "level=WARN"},
	} {
		t.Run(name, func(t *testing.T) {
			hook := newHook(t, "team-a/hook")
			var lines bytes.Buffer
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			w, err := NewWebhooks(WebhooksOptions{
				Table: newTable(t, unlimited(), hook), Log: slog.New(slog.NewTextHandler(&lines, nil)),
				Triggers: triggersFunc(func(ctx context.Context, _ event.Trigger) error {
					if !tc.hangsUp {
						return errors.New("no stream")
					}
					leave()
					<-ctx.Done()
					return ctx.Err()
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			if resp := do(w, push(hook.Path, token, "{}").WithContext(ctx)); resp.StatusCode != 503 {
				t.Errorf("got %d, want 503", resp.StatusCode)
			}
			if !strings.Contains(lines.String(), tc.want) {
				t.Errorf("got %s, want %s", lines.String(), tc.want)
			}
		})
	}
}

// Fails when a webhook waits for the bus after its sender has hung up: a sender that hangs up again and again would use ever more.
func TestT6AWebhookWhoseSenderHasGoneWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newHook(t, "team-a/hook")
		w := newWebhooks(t, newTable(t, unlimited(), hook), triggersFunc(func(ctx context.Context, _ event.Trigger) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		ctx, leave := context.WithCancel(t.Context())
		begin := time.Now()
		time.AfterFunc(time.Second, leave)
		resp := do(w, push(hook.Path, token, "{}").WithContext(ctx))
		if took := time.Since(begin); took != time.Second || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d after %s", resp.StatusCode, took)
		}
		begin = time.Now()
		resp = do(w, push(hook.Path, token, "{}"))
		if took := time.Since(begin); took != publishTime || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a bus that does not answer: %d after %s", resp.StatusCode, took)
		}
	})
}

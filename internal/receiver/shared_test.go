package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc/oidctest"
	"notifier/internal/receiver/verify"
)

// withToken gives the hook a verifier of kind with another token.
func withToken(t testing.TB, kind, secret string) hookOption {
	return func(h *Hook) {
		v, err := verify.New(kind, verify.Credentials{Token: []byte(secret)})
		if err != nil {
			t.Fatal(err)
		}
		h.Verifier = v
	}
}

// reached returns the namespaces of the published triggers, in order and once each.
func reached(bus *recorder) []string {
	var namespaces []string
	for _, t := range bus.Published {
		namespaces = append(namespaces, t.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// countingReader counts the bytes that were read of a body.
type countingReader struct {
	strings.Reader
	read atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// T1: an older Receiver's name and namespace make the path of another tenant's Receiver, which has no token. Fails when the older one gets
// the other's webhooks, takes them from it, learns of them, or changes the answer to a sender.
func TestT1AnAttackerOnAPathWithoutATokenGetsAndHindersNothing(t *testing.T) {
	path := Path("", "app", "team-a")
	if path != Path("", "appte", "am-a") {
		t.Fatal("the paths do not collide")
	}
	issuer := oidctest.New(t, issuerURL, "a")
	oidc := func(repository string) hookOption {
		return func(h *Hook) {
			v, err := verify.New("generic-oidc", verify.Credentials{Issuers: newIssuers(t, issuer, ""), OIDC: []verify.OIDCProvider{{
				IssuerURL:   issuerURL,
				Validations: []verify.OIDCValidation{{Expression: "claims.repository == '" + repository + "'", Message: "not mine: " + repository}},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			h.Verifier = v
		}
	}
	request := func(repository string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
		if repository != "" {
			r.Header = oidctest.Bearer(issuer.Token(t, "a", verify.Claims{"repository": repository}))
		}
		return r
	}
	victim := newHook(t, "team-a/app", onPath(path), created(2), oidc("org/app"))
	for name, attacker := range map[string]*Hook{
		"that has the tokens of others": newHook(t, "am-a/appte", onPath(path), created(1), oidc("org/attacker")),
		"that is suspended": newHook(t, "am-a/appte", onPath(path), created(1), oidc("org/attacker"), func(h *Hook) {
			h.Suspended = true
		}),
		"to whom the path is proof":  newHook(t, "am-a/te", onPath(path), created(1), withType(t, "generic")),
		"that expects a signature":   newHook(t, "am-a/te", onPath(path), created(1), withToken(t, "github", "app")),
		"that keeps what it is sent": newHook(t, "am-a/te", onPath(path), created(1), withType(t, "dockerhub")),
	} {
		t.Run(name, func(t *testing.T) {
			bus := &recorder{}
			table := newTable(t, unlimited(), attacker, victim)
			handler := newWebhooks(t, table, bus)
			for range 3 {
				if resp := do(handler, request("org/app")); resp.StatusCode != http.StatusOK {
					t.Errorf("the webhook of the other tenant: %d %s", resp.StatusCode, bodyOf(t, resp))
				}
			}
			if got := reached(bus); !slices.Equal(got, []string{"team-a"}) {
				t.Errorf("triggered in %q", got)
			}
			if s, _ := table.lookup(path); len(s.routes) == 2 {
				other := s.routes[slices.IndexFunc(s.routes, func(r *route) bool { return r.hook == attacker })]
				if news, _ := other.owner.stats.pending(); news {
					t.Error("webhooks of the other tenant are counted")
				}
			}
			for _, forged := range []string{"", "org/nobody"} {
				if resp := do(handler, request(forged)); resp.StatusCode != http.StatusBadRequest {
					t.Errorf("%q: %d %s", forged, resp.StatusCode, bodyOf(t, resp))
				}
			}
			if got := reached(bus); !slices.Equal(got, []string{"team-a"}) {
				t.Errorf("triggered in %q", got)
			}
		})
	}
}

// Two Receivers whose tokens, names and namespaces make one path. Fails when a Receiver does not get the webhooks that it can verify, or
// gets others.
func TestT1EachReceiverOnAPathIsServedWhatItsOwnKeyVerifies(t *testing.T) {
	path := Path(token, "main", "payments")
	if path != Path(token+"ma", "in", "payments") {
		t.Fatal("the paths do not collide")
	}
	bus := &recorder{}
	handler := newWebhooks(t, newTable(t, unlimited(),
		newHook(t, "payments/main", onPath(path), created(1)),
		newHook(t, "ments/inpay", onPath(path), created(2), withToken(t, "github", token+"ma")),
		newHook(t, "third/any", onPath(path), created(0), withType(t, "generic")),
		newHook(t, "fourth/keeps", onPath(path), created(3), withToken(t, "standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))), bus)
	for _, step := range []struct {
		key  string
		want []string
	}{
		{token, []string{"payments"}},
		{token + "ma", []string{"ments"}},
		{"nobody's", []string{"third"}}, // asks for no proof and has a secret path, if no other Receiver can be meant
	} {
		bus.Published = nil
		if resp := do(handler, push(path, step.key, `{"ref":"main"}`)); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", step.key, resp.StatusCode)
		}
		if got := reached(bus); !slices.Equal(got, step.want) {
			t.Errorf("signed with %s: triggered in %q, want %q", step.key, got, step.want)
		}
	}
}

// T3, T6: a Receiver's outcome changes nothing for another; only the answer shows that one could not store the webhook. Fails when a
// Receiver that is suspended, does not list the event, or panics shows in the answer to a webhook that another one accepted. Also fails
// when the answer hides that one did not store it.
func TestT3OfSeveralReceiversOnAPathNoneHindersAnother(t *testing.T) {
	path := Path(token, "main", "payments")
	one, two := newHook(t, "payments/main", onPath(path), created(2)), "ments/mainpay"
	for name, tc := range map[string]struct {
		other  hookOption
		down   string
		status int
		panics float64
	}{
		"both take it":             {func(*Hook) {}, "", http.StatusOK, 0},
		"the other is suspended":   {func(h *Hook) { h.Suspended = true }, "", http.StatusOK, 0},
		"the other lists no event": {withEvents("release"), "", http.StatusOK, 0},
		"the other panics":         {func(h *Hook) { h.Verifier = brokenVerifier{h.Verifier} }, "", http.StatusOK, 1},
		"the other is not stored":  {func(*Hook) {}, "ments", http.StatusServiceUnavailable, 0},
		"it is not stored":         {func(*Hook) {}, "payments", http.StatusServiceUnavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var stored atomic.Int64
			handler := newWebhooks(t, newTable(t, unlimited(), one, newHook(t, two, onPath(path), created(1), tc.other)),
				triggersFunc(func(_ context.Context, trigger event.Trigger) error {
					if trigger.Namespace == tc.down {
						return errors.New("the disk is full")
					}
					stored.Add(1)
					return nil
				}))
			resp := do(handler, push(path, token, "{}"))
			if resp.StatusCode != tc.status || stored.Load() == 0 {
				t.Errorf("answered %d %s, %d stored", resp.StatusCode, bodyOf(t, resp), stored.Load())
			}
			if got := testutil.ToFloat64(handler.metrics.panics); got != tc.panics {
				t.Errorf("%v panics are counted", got)
			}
		})
	}
}

// Fails when the panic of one Receiver, which is the outcome if no other accepts the webhook, has no label and so panics once more.
func TestAPanicOfOneOfSeveralReceiversIsCountedOnce(t *testing.T) {
	path := Path(token, "main", "payments")
	broken := newHook(t, "ments/mainpay", onPath(path))
	broken.Verifier = brokenVerifier{broken.Verifier}
	handler := newWebhooks(t, newTable(t, unlimited(), newHook(t, "payments/main", onPath(path)), broken), &recorder{})
	if resp := do(handler, push(path, "other", "{}")); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("answered %d", resp.StatusCode)
	}
	if got := testutil.ToFloat64(handler.metrics.panics); got != 1 {
		t.Errorf("%v panics are counted", got)
	}
	if got := testutil.ToFloat64(handler.metrics.webhooks["github"]["panic"]); got != 1 {
		t.Errorf("%v webhooks are counted as panics", got)
	}
}

// brokenVerifier panics.
type brokenVerifier struct{ verify.Verifier }

func (brokenVerifier) Begin(context.Context, http.Header) (verify.Check, error) {
	panic("a fault of ours")
}

// T5: several Receivers on a path make a rejected webhook dearer only by their checks. Fails when a body is read although the headers prove
// nothing, when it is read beyond its bound, and when it is kept after the answer. Also fails when a flood of failures is not charged, or
// is charged to a sender that knows the token.
func TestT5ARejectedWebhookOfSeveralReceiversIsCheap(t *testing.T) {
	path := Path(token, "main", "payments")
	limits := unlimited()
	limits.Failure = limit.Budget{Rate: 0.001, Burst: 3}
	bus := &recorder{}
	table := newTable(t, limits, newHook(t, "payments/main", onPath(path)),
		newHook(t, "ments/mainpay", onPath(path), withToken(t, "nexus", token)))
	handler := newWebhooks(t, table, bus)
	body := &countingReader{Reader: *strings.NewReader(strings.Repeat("x", 1<<20))}
	unsigned := httptest.NewRequest(http.MethodPost, path, body)
	if resp := do(handler, unsigned); resp.StatusCode != http.StatusBadRequest || body.read.Load() != 0 {
		t.Errorf("unsigned: %d, %d bytes read", resp.StatusCode, body.read.Load())
	}
	long := push(path, token, strings.Repeat("x", limit.MaxBody+1))
	long.ContentLength = -1
	if resp := do(handler, long); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too long: %d", resp.StatusCode)
	}
	statuses := map[int]int{}
	for range 20 {
		statuses[do(handler, push(path, "wrong", "{}")).StatusCode]++
		if resp := do(handler, push(path, token, "{}")); resp.StatusCode != http.StatusOK {
			t.Errorf("the one who knows the token: %d", resp.StatusCode)
		}
	}
	if statuses[http.StatusTooManyRequests] != 18 || statuses[http.StatusBadRequest] != 2 {
		t.Errorf("forged: %v", statuses)
	}
	if !slices.Equal(reached(bus), []string{"payments"}) {
		t.Errorf("triggered in %q", reached(bus))
	}
	s, _ := table.lookup(path)
	if !table.all.bodies.Idle() || !s.bodies.Idle() {
		t.Error("capacity for a body is held after the answer")
	}
	if _, ok := s.bodies.TryAcquire(limits.Bodies.Reserve + 1); !ok || table.all.bodies.Idle() {
		t.Error("what is kept for several Receivers does not count in all")
	}
}

// told is a body without an end that reports when its reader waits for more.
type told struct {
	dawdling
	waits func()
}

func (b *told) Read(p []byte) (int, error) {
	b.waits()
	return b.dawdling.Read(p)
}

// T6: fails when the bodies on paths of several Receivers count for no namespace, so that one namespace's use up the memory of all, and when
// those on paths of several namespaces have no bound together. Fails also when the paths of one namespace use up what all paths of several
// namespaces have together.
func TestT6BodiesOnSharedPathsLeaveOthersTheirMemory(t *testing.T) {
	for name, second := range map[string]string{"of one namespace": "flood/b%d", "of two namespaces": "flood-too/b%d"} {
		t.Run(name, func(t *testing.T) {
			limits := unlimited()
			limits.Bodies, limits.Wait = DefaultLimits().Bodies, 10*time.Millisecond
			free := newHook(t, "team-free/one", keeping)
			table := newTable(t, limits, free)
			w := newWebhooks(t, table, &recorder{})
			ctx, end := context.WithCancel(t.Context())
			defer end()
			var wg, settled sync.WaitGroup
			for i := range 34 {
				path := Path(token, fmt.Sprint("shared-", i/2), "flood")
				for _, key := range []string{fmt.Sprintf("flood/a%d", i/2), fmt.Sprintf(second, i/2)} {
					if err := table.Put(key, newHook(t, key, onPath(path), keeping)); err != nil {
						t.Fatal(err)
					}
				}
				r := push(path, "other", "")
				settled.Add(1)
				once := sync.OnceFunc(settled.Done)
				r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), &told{dawdling{ctx: ctx}, once})) // a buffer of 2 MiB
				r.ContentLength = -1
				wg.Go(func() {
					do(w, r)
					once()
				})
			}
			settled.Wait()
			mixed := Path(token, "mixed", "team-free")
			for _, key := range []string{"team-free/mixed", "team-too/mixed"} {
				if err := table.Put(key, newHook(t, key, onPath(mixed), keeping)); err != nil {
					t.Fatal(err)
				}
			}
			if resp := do(w, push(mixed, token, strings.Repeat("x", 1<<20))); name == "of one namespace" && resp.StatusCode != http.StatusOK {
				t.Errorf("a webhook on a path of two other namespaces: %d %s, want 200", resp.StatusCode, bodyOf(t, resp))
			}
			if resp := do(w, push(free.Path, token, strings.Repeat("x", 1<<20))); resp.StatusCode != http.StatusOK {
				t.Errorf("a webhook of another namespace: %d %s, want 200", resp.StatusCode, bodyOf(t, resp))
			}
			end()
			wg.Wait()
			if !table.all.bodies.Idle() {
				t.Error("capacity of bodies is still held")
			}
		})
	}
}

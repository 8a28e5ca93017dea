package receiver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc/oidctest"
	"notifier/internal/receiver/verify"
)

// Fails when another method is refused for the types that Flux documents to answer any, or is accepted for another type, also by
// inheritance from generic. Also fails when it makes a signature unnecessary, and when a CONNECT is accepted: what follows an accepted one on the
// connection is no HTTP (GO-2026-6613).
func TestGenericTypesTakeAnyMethodAndNoOthersDo(t *testing.T) {
	for _, kind := range verify.Types() {
		// Types that need more than a token do not inherit from generic.
		if !verify.NeedsSecret(kind) || kind == "gcr" || kind == "standard-webhooks" {
			continue
		}
		hook := newHook(t, "team/app", withType(t, kind))
		for _, method := range []string{
			http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
		} {
			bus := &recorder{}
			r := httptest.NewRequest(method, hook.Path, strings.NewReader(""))
			want, triggers := http.StatusMethodNotAllowed, 0
			switch {
			case method == http.MethodConnect:
			case kind == "generic":
				want, triggers = http.StatusOK, 1
			case kind == "generic-hmac":
				want = http.StatusBadRequest
			}
			if resp := do(newWebhooks(t, newTable(t, unlimited(), hook), bus), r); resp.StatusCode != want || bus.Count() != triggers {
				t.Errorf("%s of %s: got %d and %d triggers, want %d and %d", method, kind, resp.StatusCode, bus.Count(), want, triggers)
			}
		}
	}
}

// Fails when a path of Receivers of several types accepts the method of one type for another, or of none for all.
func TestOnASharedPathAMethodCountsForTheTypesThatTakeIt(t *testing.T) {
	github, generic := newHook(t, "team/app"), newHook(t, "tea/mapp", withType(t, "generic"))
	github.Path = Path(token, "app", "team")
	generic.Path = github.Path
	for method, want := range map[string]struct {
		status int
		names  []string
	}{
		http.MethodPut:  {http.StatusOK, []string{"tea"}},
		http.MethodPost: {http.StatusOK, []string{"tea"}}, // it has no signature
	} {
		bus := &recorder{}
		resp := do(newWebhooks(t, newTable(t, unlimited(), github, generic), bus), httptest.NewRequest(method, github.Path, nil))
		var names []string
		for _, trigger := range bus.Published {
			names = append(names, trigger.Namespace)
		}
		if resp.StatusCode != want.status || !slices.Equal(names, want.names) {
			t.Errorf("%s: got %d for %v, want %+v", method, resp.StatusCode, names, want)
		}
	}
	resp := do(newWebhooks(t, newTable(t, unlimited(), github), &recorder{}), httptest.NewRequest(http.MethodPut, github.Path, nil))
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != http.MethodPost {
		t.Errorf("PUT without generic: %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
}

// Fails when a ping triggers or is refused, and when the ID of a webhook is lost.
func TestACRPingIsAnsweredAndTriggersNothing(t *testing.T) {
	hook := newHook(t, "team/app", withType(t, "acr"), withEvents("push"))
	for body, want := range map[string]struct {
		answer   string
		triggers int
	}{
		`{"id":"1","action":"ping"}`:        {`{"accepted":true,"ping":true}`, 0},
		`{"id":"cb8c3971","action":"push"}`: {`{"accepted":true}`, 1},
	} {
		bus := &recorder{}
		r := httptest.NewRequest(http.MethodPost, hook.Path, strings.NewReader(body))
		resp := do(newWebhooks(t, newTable(t, unlimited(), hook), bus), r)
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusOK || got != want.answer || bus.Count() != want.triggers {
			t.Errorf("%s: got %d %s and %d triggers, want %+v", body, resp.StatusCode, got, bus.Count(), want)
		}
	}
}

// The limits of one namespace's work: the longest wait for a turn, and the least sizes of a large event and of a large document.
const (
	longest       = 2 * time.Second
	largeEvent    = 1 << 20 / 90
	largeDocument = 32 << 20
)

// T6: events are decoded in their namespace's turn, since each may need 6 MB and 10 ms. Fails when they take no turn, when a Receiver's
// turn is not also its namespace's, when another namespace waits, and when a wait has no end. Also fails when such an event is refused as
// if it were unfit: the sender would not send it again.
func TestT6CDEventsTakeTheirNamespacesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := limit.NewShare()
		hook := func(key string) *Hook {
			return newHook(t, key, func(h *Hook) {
				v, err := verify.New("cdevents", verify.Credentials{Token: []byte(token), Namespace: h.Namespace, Share: share})
				if err != nil {
					t.Fatal(err)
				}
				h.Verifier = v
			})
		}
		one, two, other := hook("team-a/one"), hook("team-a/two"), hook("team-b/one")
		w := newWebhooks(t, newTable(t, unlimited(), one, two, other), &recorder{})
		turn, _ := share.Enter(t.Context(), "team-a", 0)
		for name, tc := range map[string]struct {
			hook   *Hook
			status int
			after  time.Duration
		}{
			"a Receiver of the namespace": {one, http.StatusServiceUnavailable, longest},
			"another of its Receivers":    {two, http.StatusServiceUnavailable, longest},
			"another namespace":           {other, http.StatusOK, 0},
		} {
			began := time.Now()
			resp := do(w, push(tc.hook.Path, token, changeMerged))
			if took := time.Since(began); resp.StatusCode != tc.status || took != tc.after {
				t.Errorf("%s: %d after %v: %s", name, resp.StatusCode, took, bodyOf(t, resp))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if resp := do(w, push(one.Path, token, changeMerged).WithContext(ctx)); resp.StatusCode != http.StatusServiceUnavailable || time.Since(began) != 0 {
			t.Errorf("of a sender that left: %d after %v", resp.StatusCode, time.Since(began))
		}
		turn.Leave()
		elapse(time.Minute)
		large, _ := share.Enter(t.Context(), "team-b", largeDocument)
		if resp := do(w, push(one.Path, token, changeMerged)); resp.StatusCode != http.StatusOK {
			t.Errorf("with share: %d", resp.StatusCode)
		}
		padded := changeMerged + strings.Repeat(" ", largeEvent)
		if resp := do(w, push(one.Path, token, padded)); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a large event beside a large document: %d", resp.StatusCode)
		}
		large.Leave()
		if resp := do(w, push(one.Path, token, padded)); resp.StatusCode != http.StatusOK {
			t.Errorf("a large event: %d", resp.StatusCode)
		}
	})
}

// T6: a type parses a body in its namespace's turn, since 3 MiB may take 0.2 s of a processor, a hundred times its hash. Fails when a type
// parses a large body without a turn, or has a small one wait, which takes no longer than the rest of its request.
func TestT6EachTypeParsesInItsNamespacesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := limit.NewShare()
		turn, _ := share.Enter(t.Context(), "team-a", 0)
		defer turn.Leave()
		for _, kind := range []string{"acr", "cdevents", "dockerhub", "quay"} { // the proof of others does not matter here
			hook := newHook(t, "team-a/hook", func(h *Hook) {
				v, err := verify.New(kind, verify.Credentials{Token: []byte(token), Namespace: h.Namespace, Share: share})
				if err != nil {
					t.Fatal(err)
				}
				h.Verifier = v
			})
			w := newWebhooks(t, newTable(t, unlimited(), hook), &recorder{})
			began := time.Now()
			resp := do(w, push(hook.Path, token, changeMerged+strings.Repeat(" ", 1<<10)))
			if took := time.Since(began); resp.StatusCode != http.StatusServiceUnavailable || took != longest {
				t.Errorf("%s: %d after %v", kind, resp.StatusCode, took)
			}
			if kind == "cdevents" { // its memory is many times a body's length, so none is small
				continue
			}
			began = time.Now()
			resp = do(w, push(hook.Path, token, `{"id":"1"}`))
			if took := time.Since(began); resp.StatusCode != http.StatusOK || took != 0 {
				t.Errorf("%s, a small body: %d after %v", kind, resp.StatusCode, took)
			}
		}
	})
}

// The whole way over a real socket: discovery, keys, the handler, the trigger, and the tenant's own words in the answer. Fails when the
// answer does not name the failed validation, and when an unavailable issuer counts as the sender's fault.
func TestGenericOIDCThroughTheHandler(t *testing.T) {
	issuer := oidctest.New(t, "", "a")
	server := httptest.NewServer(issuer)
	defer server.Close()
	issuer.URL = server.URL
	hook := newHook(t, "team/app", func(h *Hook) {
		h.Verifier = oidcVerifier(t, newIssuers(t, http.DefaultTransport, ""), issuer.URL)
		h.Path = Path("", h.Name, h.Namespace)
	})
	dead := newHook(t, "team/dead", func(h *Hook) {
		down := oidctest.New(t, issuer.URL, "a")
		down.Answers(oidctest.Silence)
		h.Verifier = oidcVerifier(t, newIssuers(t, down, ""), issuer.URL)
		h.Path = Path("", h.Name, h.Namespace)
	})
	bus := &recorder{}
	handler := newWebhooks(t, newTable(t, unlimited(), hook, dead), bus)
	for name, test := range map[string]struct {
		path, token string
		status      int
		body        string
		triggers    int
	}{
		"accepted":         {hook.Path, issuer.Token(t, "a", nil), 200, `{"accepted":true}`, 1},
		"of another owner": {hook.Path, issuer.Token(t, "a", verify.Claims{"repository": "b/c"}), 400, `{"reason":"not our organisation"}`, 0},
		"issuer down":      {dead.Path, issuer.Token(t, "a", nil), 503, `{"reason":"the issuer's keys are not available"}`, 0},
	} {
		before := bus.Count()
		r := httptest.NewRequest(http.MethodPost, test.path, strings.NewReader("{}"))
		r.Header = oidctest.Bearer(test.token)
		resp := do(handler, r)
		if got := bodyOf(t, resp); resp.StatusCode != test.status || got != test.body || bus.Count()-before != test.triggers {
			t.Errorf("%s: got %d %s and %d triggers, want %+v", name, resp.StatusCode, got, bus.Count()-before, test)
		}
	}
	server.CloseClientConnections()
}

// Invariant T6: fails when a namespace's tokens are checked all at once, which multiplies the cost of one, and when a token that waited in
// vain is answered as not authentic.
func TestT6TokensWaitForTheirNamespacesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "a")
		share := limit.NewShare()
		verifier := func(namespace string) verify.Verifier {
			v, err := verify.New("generic-oidc", verify.Credentials{
				Namespace: namespace, Share: share, Issuers: newIssuers(t, issuer, ""),
				OIDC: []verify.OIDCProvider{{IssuerURL: issuerURL, Validations: []verify.OIDCValidation{{Expression: "true", Message: "m"}}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		turn, _ := share.Enter(t.Context(), "team", 0)
		hook := newHook(t, "team/app", func(h *Hook) { h.Verifier = verifier("team") })
		handler := newWebhooks(t, newTable(t, unlimited(), hook), &recorder{})
		post := func() int {
			r := httptest.NewRequest(http.MethodPost, hook.Path, strings.NewReader("{}"))
			r.Header = oidctest.Bearer(issuer.Token(t, "a", nil))
			return do(handler, r).StatusCode
		}
		if got := post(); got != http.StatusServiceUnavailable {
			t.Errorf("without a turn: %d", got)
		}
		turn.Leave()
		if got := post(); got != http.StatusOK {
			t.Errorf("with a turn: %d", got)
		}
	})
}

// reading is a filter that selects nothing and remembers the documents that it read.
type reading struct {
	body      bool
	documents *[]string
}

func (f reading) ReadsBody() bool { return f.body }

func (f reading) Select(_ context.Context, _, document []byte) ([]event.Trigger, error) {
	read := string(document)
	if document == nil {
		read = "none"
	}
	*f.documents = append(*f.documents, read)
	return nil, nil
}

// Fails when the handler passes filters the body unchanged, or keeps it for a filter that does not read it.
func TestTheEndpointHandsFiltersTheDocument(t *testing.T) {
	for _, reads := range []bool{true, false} {
		var read []string
		hook := newHook(t, "team-a/hook", func(h *Hook) { h.Filter = reading{reads, &read} })
		r := push(hook.Path, token, "payload=%7B%7D")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp := do(newWebhooks(t, newTable(t, DefaultLimits(), hook), &recorder{}), r)
		want := map[bool]string{true: "{}", false: "none"}[reads]
		if resp.StatusCode != 200 || len(read) != 1 || read[0] != want {
			t.Errorf("a filter that reads (%v): %d, read %q, want %q", reads, resp.StatusCode, read, want)
		}
	}
}

// Fails when the test connection is refused, when it triggers, or when the list of events counts for it.
func TestBitbucketsTestConnectionIsAnsweredAndTriggersNothing(t *testing.T) {
	for name, events := range map[string][]string{"unlisted": {"repo:push"}, "listed": {"diagnostics:ping"}, "all": nil} {
		hook := newHook(t, "team-a/hook", withType(t, "bitbucket"), withEvents(events...))
		bus := &recorder{}
		w := newWebhooks(t, newTable(t, DefaultLimits(), hook), bus)
		r := httptest.NewRequest(http.MethodPost, hook.Path, strings.NewReader(`{"test": true}`))
		r.Header.Set("X-Event-Key", "diagnostics:ping")
		if resp := do(w, r); resp.StatusCode != 200 || bodyOf(t, resp) != `{"accepted":true,"ping":true}` || bus.Count() != 0 {
			t.Errorf("%s: %d, %d triggers; want 200 and none", name, resp.StatusCode, bus.Count())
		}
	}
}

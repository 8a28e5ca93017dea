package receiver

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestGenericTakesWhoeverKnowsThePath(t *testing.T) {
	try(t, "generic", map[string]attempt{
		"no header":   {http.Header{}, nil},
		"any headers": {header("X-Signature", "sha256=00", "Authorization", "x"), nil},
	})
}

// Fails when one of the headers is not read, or the other wins.
func TestGenericTypesNameTheDeliveryInEitherCommonHeader(t *testing.T) {
	for _, kind := range []string{"generic", "generic-hmac"} {
		reads(t, kind, map[string]struct {
			header http.Header
			want   Event
		}{
			"neither":         {header(), Event{}},
			"Idempotency-Key": {header("Idempotency-Key", "a"), Event{Delivery: "a"}},
			"webhook-id":      {header("webhook-id", "b"), Event{Delivery: "b"}},
			"both":            {header("webhook-id", "b", "Idempotency-Key", "a"), Event{Delivery: "a"}},
		})
	}
}

// Fails when another method is refused for the types that Flux documents to answer any, or is taken for another type, by inheritance from
// generic too, and when it spares a signature.
func TestGenericTypesTakeAnyMethodAndNoOthersDo(t *testing.T) {
	for _, kind := range Types() {
		// Those that need more than a token do not inherit from generic.
		if !NeedsSecret(kind) || kind == "gcr" || kind == "standard-webhooks" {
			continue
		}
		hook := newHook(t, "team/app", withType(t, kind))
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			bus := &recorder{}
			r := httptest.NewRequest(method, hook.Path, strings.NewReader(""))
			want, triggers := http.StatusMethodNotAllowed, 0
			switch kind {
			case "generic":
				want, triggers = http.StatusOK, 1
			case "generic-hmac":
				want = http.StatusBadRequest
			}
			if resp := do(newWebhooks(t, newTable(t, unlimited(), hook), bus), r); resp.StatusCode != want || bus.count() != triggers {
				t.Errorf("%s of %s: got %d and %d triggers, want %d and %d", method, kind, resp.StatusCode, bus.count(), want, triggers)
			}
		}
	}
}

// Fails when a path that Receivers of several types share takes the method of one type for another, or of none for all.
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
		for _, trigger := range bus.published {
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

func FuzzGeneric(f *testing.F) {
	fuzzVerifier(f, "generic", []string{"X-Anything"}, nil, func(http.Header, string) bool { return true })
}

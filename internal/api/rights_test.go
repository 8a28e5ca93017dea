package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// routes are the routes of a namespace: the request, its body, and the rights that it needs.
var routes = []struct {
	method, path, body string
	rights             []string
}{
	{"GET", "/deliveries", "", []string{"list deliveries"}},
	{"GET", "/deliveries/aa", "", []string{"get deliveries"}},
	{"POST", "/deliveries/aa/replay", "", []string{"create deliveries/replay"}},
	{"POST", "/deliveries/replay", `{"state":"dead"}`, []string{"create deliveries/replay"}},
	{"GET", "/events", "", []string{"list events"}},
	{"GET", "/events/bb/explain", "", []string{"get events", "get deliveries"}},
	{"GET", "/webhooks", "", []string{"list webhooks"}},
	{"GET", "/health", "", []string{"list deliveries"}},
	{"POST", "/providers/slack/test", "", []string{"create providers/test"}},
}

func (w *world) fill() {
	w.store.deliveries = []view.Delivery{{ID: "aa", Namespace: "team-a"}}
	w.store.records["bb"] = &event.Record{ID: "bb", Event: event.Event{InvolvedObject: event.ObjectReference{Namespace: "team-a"}}}
}

// W1. Fails when a route leaves out one of its rights, requires more than those, or checks them in another namespace.
func TestW1EachRouteNeedsItsRightsAndNoOthers(t *testing.T) {
	for _, r := range routes {
		t.Run(r.method+r.path, func(t *testing.T) {
			w := newWorld(t)
			w.fill()
			path := "/v1/namespaces/team-a" + r.path
			w.authority.grant("all", "team-a", r.rights...)
			if got := w.ask("all", r.method, path, r.body); got.Code != http.StatusOK {
				t.Errorf("with the rights: %d %s", got.Code, got.Body)
			}
			w.authority.grant("elsewhere", "team-b", append(slices.Clone(reads), writes...)...)
			if got := w.ask("elsewhere", r.method, path, r.body); got.Code != http.StatusForbidden {
				t.Errorf("with all rights in another namespace: %d", got.Code)
			}
			for i, missing := range r.rights {
				user := fmt.Sprint("some", i)
				w.authority.grant(user, "team-a", slices.DeleteFunc(append(slices.Clone(reads), writes...), func(s string) bool { return s == missing })...)
				got := w.ask(user, r.method, path, r.body)
				if r.path == "/health" { // the right to list webhooks shows Receivers
					w.authority.revoke(user, "team-a", "list webhooks")
					got = w.ask(user, r.method, path, r.body)
				}
				if got.Code != http.StatusForbidden {
					t.Errorf("without %s: %d", missing, got.Code)
				}
			}
		})
	}
}

// W2. Fails when the answer to a user without a right names the namespace, or depends on its content, or when anything is read
// first.
func TestW2WithoutARightEveryNamespaceIsAnsweredAlike(t *testing.T) {
	w := newWorld(t)
	w.fill()
	w.store.namespaces = []string{"team-a"}
	w.store.entered = make(chan string, 100)
	w.authority.grant("nobody", "", "")
	for _, r := range append(slices.Clone(routes), routes[0]) {
		for _, watch := range []string{"", "?watch=1"} {
			if watch != "" && r.body+r.rights[0] != "list deliveries" {
				continue
			}
			there := w.ask("nobody", r.method, "/v1/namespaces/team-a"+r.path+watch, r.body)
			absent := w.ask("nobody", r.method, "/v1/namespaces/no-such-place"+r.path+watch, r.body)
			if there.Code != http.StatusForbidden || absent.Code != http.StatusForbidden {
				t.Fatalf("%s: %d and %d, want 403", r.path, there.Code, absent.Code)
			}
			if diff := cmp.Diff(there.Body.String(), absent.Body.String()) + cmp.Diff(there.Header(), absent.Header()); diff != "" {
				t.Errorf("%s: %s", r.path, diff)
			}
			if strings.Contains(there.Body.String(), "team-a") {
				t.Errorf("%s: %s", r.path, there.Body)
			}
		}
	}
	if len(w.store.entered) > 0 {
		t.Errorf("%s was read for a user without a right", <-w.store.entered)
	}
}

// Fails when Health shows Receivers without the right to list webhooks, or the others without the right to list deliveries.
func TestHealthShowsWhatTheListsOfAUserAreOf(t *testing.T) {
	w := newWorld(t)
	w.store.health = []view.Health{{Kind: "Alert", Name: "a"}, {Kind: "Provider", Name: "p", Problem: "broken"}, {Kind: "Receiver", Name: "r", Ready: true}}
	w.authority.grant("both", "team-a", "list deliveries", "list webhooks")
	w.authority.grant("deliveries", "team-a", "list deliveries")
	w.authority.grant("webhooks", "team-a", "list webhooks")
	for user, want := range map[string][]view.Health{"both": w.store.health, "deliveries": w.store.health[:2], "webhooks": w.store.health[2:]} {
		var got healthOf
		w.want(http.StatusOK, user, "GET", "/v1/namespaces/team-a/health", &got)
		if diff := cmp.Diff(want, got.Items); diff != "" {
			t.Errorf("%s: %s", user, diff)
		}
	}
}

// W3. Fails when a request without exactly one good token passes, gets another status than 401, when the token is in the answer, or
// when the answer does not say what to do about an expired one.
func TestW3WithoutATokenThereIsNothing(t *testing.T) {
	w := newWorld(t)
	w.fill()
	w.authority.grant("good", "team-a", reads...)
	for name, header := range map[string][]string{
		"none":        nil,
		"empty":       {""},
		"no scheme":   {"good"},
		"basic":       {"Basic good"},
		"no token":    {"Bearer "},
		"two":         {"Bearer good", "Bearer good"},
		"two in one":  {"Bearer good, Bearer good"},
		"two words":   {"Bearer good good"},
		"other bytes": {"Bearer good\x00"},
		"not ASCII":   {"Bearer goöd"},
		"long":        {"Bearer " + strings.Repeat("a", maxToken+1)},
		"unknown":     {"Bearer stolen-secret"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/namespaces/team-a/deliveries", http.NoBody)
		if header != nil {
			r.Header["Authorization"] = header
		}
		got := httptest.NewRecorder()
		w.handler.ServeHTTP(got, r)
		if got.Code != http.StatusUnauthorized || !strings.HasPrefix(got.Header().Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: %d %v", name, got.Code, got.Header())
		}
		if strings.Contains(got.Body.String(), "stolen") || !strings.Contains(got.Body.String(), "has expired") ||
			!strings.Contains(got.Body.String(), "sign in again") {
			t.Errorf("%s: %s", name, got.Body)
		}
	}
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/namespaces/team-a/deliveries", http.NoBody)
		r.Header.Set("Authorization", scheme+"good")
		got := httptest.NewRecorder()
		w.handler.ServeHTTP(got, r)
		if got.Code != http.StatusOK {
			t.Errorf("%q: %d", scheme, got.Code)
		}
	}
}

// W4. Fails when anything is shown while the Kubernetes API cannot authorize users.
func TestW4WithoutTheKubernetesAPINothingIsShown(t *testing.T) {
	w := newWorld(t)
	w.fill()
	w.authority.grant("good", "team-a", append(slices.Clone(reads), writes...)...)
	w.authority.fail(ErrUnavailable)
	for _, r := range routes {
		got := w.ask("good", r.method, "/v1/namespaces/team-a"+r.path, r.body)
		if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "2" {
			t.Errorf("%s: %d %v", r.path, got.Code, got.Header())
		}
	}
}

// Fails when a User prints its token.
func TestAUserPrintsWithoutTheToken(t *testing.T) {
	u := &User{Name: "jane", token: "stolen-secret"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{u, u.token, []*User{u}} {
			if text := fmt.Sprintf(format, value); strings.Contains(text, "stolen") {
				t.Errorf("%s: %s", format, text)
			}
		}
	}
}

// Fails when the service accounts of a namespace have limits of their own, or when a user gets the key of such a namespace.
func TestTheServiceAccountsOfANamespaceShareTheirLimits(t *testing.T) {
	for name, want := range map[string]string{
		"system:serviceaccount:team-a:one": "system:serviceaccounts:team-a", "system:serviceaccount:team-a:two": "system:serviceaccounts:team-a",
		"jane": "jane", "system:serviceaccount:": "system:serviceaccount:", "system:serviceaccount:a": "system:serviceaccount:a",
	} {
		if got := (&User{Name: name}).Tenant(); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

package gitea

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const commit = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"

// metadata has the entries that both types need.
var metadata = map[string]string{"commit": commit, "change_request": "7"}

var build = providertest.BuildWith(New, metadata)

func TestContract(t *testing.T) {
	for typ, requests := range map[string]int{typeStatus: 2, typeComment: 3} {
		t.Run(typ, func(t *testing.T) {
			v := &vendor{auth: "token gitea-s3cret", login: "flux"}
			providertest.Run(t, providertest.Subject{
				New:    build,
				Config: provider.Config{Type: typ, UID: "0c9c2e41-8a43-4bd5-9d0c-6a2f6f1f5c11", Token: "gitea-s3cret"},
				Serve:  v.ServeHTTP, Requests: requests, Path: "team-a/fleet-s3cret.git", Reads: true,
			})
		})
	}
}

// newSender returns a Sender of a type to v, whose API is under a path of its own.
func newSender(t *testing.T, typ string, v *vendor) (provider.Sender, *providertest.Sink) {
	t.Helper()
	v.auth, v.login = "token gitea-s3cret", "flux"
	sink := providertest.NewSink(t, v.ServeHTTP)
	return providertest.NewSender(t, build, provider.Config{
		Type: typ, Address: sink.URL + "/git/team-a/fleet", Token: "gitea-s3cret", UID: "0c9c2e41-8a43-4bd5-9d0c-6a2f6f1f5c11",
		Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	for _, typ := range []string{typeStatus, typeComment} {
		s, sink := newSender(t, typ, &vendor{})
		providertest.SendAll(t, s, providertest.Notifications(t)["info"]) // from here on the own account is known
		t.Run(typ, func(t *testing.T) { providertest.Golden(t, typ, s, sink) })
	}
}

// Fails when a status is posted although the last one of its context is the same, or is not posted although it differs.
func TestAStatusIsPostedWhenTheLastOfItsContextDiffers(t *testing.T) {
	v := &vendor{keep: true}
	s, _ := newSender(t, typeStatus, v)
	all := providertest.Notifications(t)
	progress, again := all["info"], all["info"]
	progress.Event.Reason = "Progressing"
	again.Event.Reason = "HealthCheckFailed"
	for i, step := range []struct {
		n     provider.Notification
		posts int
		state string
	}{
		{progress, 1, "pending"},
		{progress, 1, "pending"},
		{all["error"], 2, "failure"},
		{all["error"], 2, "failure"},
		{again, 3, "success"},
		{all["info"], 4, "success"},
		{all["info"], 4, "success"},
		{all["error"], 5, "failure"},
	} {
		providertest.SendAll(t, s, step.n)
		if last := v.statuses[len(v.statuses)-1]; v.posts != step.posts || last.State != step.state {
			t.Errorf("step %d: %d posts, the last %+v; want %d, %s", i, v.posts, last, step.posts, step.state)
		}
	}
	if got := v.statuses[0]; got.Context != "kustomization/apps/0c9c2e41" || got.Description != "progressing" {
		t.Errorf("got %+v", got)
	}
}

// Fails when only one page is read, when a full page counts as the last, or when the number of pages is unbounded.
func TestAContextIsFoundAmongManyAndTheSearchEnds(t *testing.T) {
	v := &vendor{keep: true}
	s, sink := newSender(t, typeStatus, v)
	providertest.SendAll(t, s, providertest.Notifications(t)["info"])
	for i := range 3 * pageLength { // later statuses, which are listed first
		v.statuses = append(v.statuses, status{Context: fmt.Sprint("other ", i), State: "success"})
	}
	before := len(sink.Requests())
	providertest.SendAll(t, s, providertest.Notifications(t)["info"])
	if asked := len(sink.Requests()) - before; v.posts != 1 || asked != 4 {
		t.Errorf("%d posts, %d pages; want the one of before and 4 pages", v.posts, asked)
	}
	for i := range 2 * maxPages * pageLength {
		v.statuses = append(v.statuses, status{Context: fmt.Sprint("another ", i), State: "success"})
	}
	before = len(sink.Requests())
	providertest.SendAll(t, s, providertest.Notifications(t)["info"])
	if asked := len(sink.Requests()) - before; v.posts != 2 || asked != maxPages+1 {
		t.Errorf("%d posts, %d requests; want another post after %d pages", v.posts, asked, maxPages)
	}
}

// Fails when a replay ignores the time at which Gitea took the last status, or an older status counts as newer than the event.
func TestAReplayedFailureDoesNotReplaceANewerStatus(t *testing.T) {
	for created, posts := range map[string]int{
		"2026-03-04T05:06:06Z": 1, "2026-03-04T06:06:08+01:00": 0, "2027-01-01T00:00:00Z": 0, "nonsense": 1,
	} {
		v := &vendor{keep: true}
		s, _ := newSender(t, typeStatus, v)
		v.statuses = []status{{Context: "kustomization/apps/0c9c2e41", State: "success", Description: "x", Created: created}}
		n := providertest.Notifications(t)["error"] // of 05:06:07
		n.Replayed = true
		providertest.SendAll(t, s, n)
		if v.posts != posts {
			t.Errorf("after a status of %s: %d posts, want %d", created, v.posts, posts)
		}
	}
}

// Fails when another account's comment with the mark is edited, when the own comment is missed, or when the account is requested
// again.
func TestTheOwnCommentIsEditedAndNoOther(t *testing.T) {
	v := &vendor{keep: true}
	s, sink := newSender(t, typeComment, v)
	all := providertest.Notifications(t)
	providertest.SendAll(t, s, all["info"])
	if len(v.comments) != 1 {
		t.Fatalf("%d comments", len(v.comments))
	}
	forged := v.comments[0]
	forged.ID, forged.User.Login = 2, "mallory"
	v.comments = []githost.Comment{forged, {ID: 1001, User: githost.Account{Login: "flux"}, Body: "something else"}}
	providertest.SendAll(t, s, all["info"])
	for range 200 {
		v.comments = slices.Insert(v.comments, 0, githost.Comment{ID: 1000, User: githost.Account{Login: "flux"}, Body: "talk"})
	}
	providertest.SendAll(t, s, all["error"])
	own := v.comments[len(v.comments)-1]
	if v.posts != 2 || len(v.comments) != 203 || !strings.Contains(own.Body, "health check failed") || v.comments[200] != forged {
		t.Errorf("%d posts, %d comments, the own one %+v", v.posts, len(v.comments), own)
	}
	asked := 0
	for _, r := range sink.Requests() {
		if strings.HasSuffix(r.Path, "/user") {
			asked++
		}
	}
	if last := sink.Last(t); asked != 1 || last.Method != http.MethodPatch || !strings.HasSuffix(last.Path, "/issues/comments/3") {
		t.Errorf("the account was asked %d times, the last request was %s %s", asked, last.Method, last.Path)
	}
}

// Fails when an attempt whose answer was lost leaves two statuses or comments.
func TestAnAttemptWhoseAnswerWasLostWritesOnce(t *testing.T) {
	for _, typ := range []string{typeStatus, typeComment} {
		v := &vendor{keep: true, auth: "token gitea-s3cret", login: "flux"}
		providertest.LoseAnswer(t, v.ServeHTTP, func(address string) (provider.Sender, error) {
			return build(provider.Config{Type: typ, Address: address + "/o/r", Token: "gitea-s3cret", Network: providertest.Loopback()})
		})
		if v.posts != 1 {
			t.Errorf("%s: %d were written", typ, v.posts)
		}
	}
}

// Fails when the path of the server is read as the owner, or a credential of the address is kept.
func TestTheAddressIsThatOfARepository(t *testing.T) {
	for address, want := range map[string]string{
		"https://gitea.test/o/r.git":         "https://gitea.test/ o r",
		"git@gitea.test:o/r.git":             "https://gitea.test/ o r",
		"ssh://git@gitea.test:2222/o/r":      "https://gitea.test/ o r",
		"http://test.test:3000/a%20b/c/o/r/": "http://test.test:3000/a%20b/c o r",
		"https://u:p@gitea.test/o/r.x?q=1#f": "https://gitea.test/ o r.x",
		"https://gitea.test/o":               "",
		"https://gitea.test/":                "",
		"https://gitea.test/%2e%2e/o/../r":   "",
	} {
		cfg := provider.Config{Address: address}
		at, err := locate(&cfg)
		if got := cfg.Address + " " + at.owner + " " + at.name; want != "" && (err != nil || got != want) || want == "" && err == nil {
			t.Errorf("%s: got %s, %v; want %s", address, got, err, want)
		}
	}
}

// Fails when the error for a missing token does not name the key, or a faulty token is sent or quoted.
func TestATokenIsNeeded(t *testing.T) {
	for _, typ := range []string{typeStatus, typeComment} {
		for token, want := range map[string]string{"": "key token", "s3cret\n": "line end", "s3c\x00ret": "line end"} {
			_, err := New(provider.Config{Type: typ, Address: "https://gitea.test/o/r", Token: token})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3c") {
				t.Errorf("%s, %q: got %v", typ, token, err)
			}
		}
		if _, err := New(provider.Config{Type: typ, Address: "https://gitea.test/o/r", Password: "p"}); err != nil {
			t.Errorf("%s: a password is not taken for the token: %v", typ, err)
		}
	}
	if _, err := New(provider.Config{Type: typeStatus, Token: "t"}); !errors.Is(err, provider.ErrNoAddress) {
		t.Errorf("got %v, want an error that says where an address is looked for", err)
	}
}

// Fails when statuses ignore the TLS material of the Secret, or when comments use it: Flux's comments do not.
func TestOnlyStatusesTakeTLSOfTheSecret(t *testing.T) {
	values := map[string]string{"ca.crt": "no certificate"}
	for typ, taken := range map[string]bool{typeStatus: true, typeComment: false} {
		_, err := New(provider.Config{Type: typ, Address: "https://gitea.test/o/r", Token: "t", Values: values})
		if (err != nil) != taken {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// Fails when a known message of Gitea is left out, or when any other part of an answer is shown.
func TestKnownReasonsAreShownAndNothingElse(t *testing.T) {
	providertest.Refusals(t, map[string]string{
		`{"message":"token does not have at least one of required scope(s): [x] s3cret"}`: "HTTP 403: the token lacks a scope",
		`{"message":"s3cret"}`:   "HTTP 403",
		`token does not have at`: "HTTP 403",
		``:                       "HTTP 403",
	}, func(address string) (provider.Sender, error) {
		return build(provider.Config{Type: typeStatus, Address: address + "/o/r", Token: "t", Network: providertest.Loopback()})
	})
}

func TestAnAnswerOfSomethingElseIsRetried(t *testing.T) {
	for _, typ := range []string{typeStatus, typeComment} {
		sink := providertest.NewSink(t, providertest.Says(http.StatusOK, "<html>"))
		s := providertest.NewSender(t, build, provider.Config{
			Type: typ, Address: sink.URL + "/o/r", Token: "t", Network: providertest.Loopback(),
		})
		e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if e == nil || e.Class != event.Retry || e.Label != provider.LabelReply {
			t.Errorf("%s: got %v", typ, e)
		}
	}
}

func TestALateFailureDoesNotReplaceTheTextOfANewerSuccess(t *testing.T) {
	v := &vendor{keep: true}
	providertest.LateComment(t, metadata, func() provider.Sender {
		s, _ := newSender(t, typeComment, v)
		return s
	}, func() string { return fmt.Sprint(v.comments) })
}

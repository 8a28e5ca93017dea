package github

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	repository = "team-s3cret/apps.git"
	uid        = "0c9c2e41-d2f9-4f9b-9c41-bebc1984d67a"
)

var needed = map[string]string{"commit": commit, "change_request": "7"}

var build = providertest.BuildWith(New, needed)

func TestContract(t *testing.T) {
	for typ, requests := range map[string]int{"github": 2, "githubpullrequestcomment": 3, "githubdispatch": 1} {
		t.Run(typ, func(t *testing.T) {
			providertest.Run(t, providertest.Subject{
				New: build, Config: provider.Config{Type: typ, Token: fakeToken, UID: uid}, Path: repository, Requests: requests,
				Reads: typ != "githubdispatch",
				Serve: forgetful(t),
			})
		})
	}
}

// forgetful returns a GitHub that keeps nothing, so that every send makes the same requests.
func forgetful(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { newFake(t).ServeHTTP(w, r) }
}

// newSender returns a Sender of a type to GitHub.
func newSender(t *testing.T, h http.Handler, cfg provider.Config) (*Sender, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h.ServeHTTP)
	cfg.Address, cfg.Network, cfg.UID = sink.URL+"/"+repository, providertest.Loopback(), uid
	return providertest.NewSender(t, New, cfg), sink
}

func TestPayloads(t *testing.T) {
	for _, typ := range []string{"github", "githubpullrequestcomment", "githubdispatch"} {
		s, sink := newSender(t, forgetful(t), provider.Config{Type: typ, Token: fakeToken})
		sender := providertest.WithMetadata(s, needed)
		if err := sender.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil { // requests the token's owner
			t.Fatal(err)
		}
		t.Run(typ, func(t *testing.T) { providertest.Golden(t, typ, sender, sink) })
	}
}

// Fails when a status is set that GitHub has already, or when the status of another name counts.
func TestAStatusIsSetWhereTheLastOneDiffers(t *testing.T) {
	f := newFake(t)
	s, _ := newSender(t, f, provider.Config{Type: "github", Token: fakeToken})
	bad, good := providertest.About(needed, "error", "HealthCheckFailed"), providertest.About(needed, "info", "ReconciliationSucceeded")
	providertest.SendAll(t, s, bad)
	f.statuses = append(f.statuses, status{State: "success", Context: "ci/tests", Description: "green"})
	providertest.SendAll(t, s, bad, good, good, bad)
	var got []string
	for _, s := range f.statuses {
		got = append(got, s.State+" "+s.Context+" "+s.Description)
	}
	const name = "kustomization/apps/0c9c2e41 "
	want := []string{
		"failure " + name + "health check failed", "success ci/tests green", "success " + name + "reconciliation succeeded",
		"failure " + name + "health check failed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Fails when a status behind a hundred others of its commit is not found: a replayed failure then replaces it, and it is set again at every
// interval, until GitHub takes no more of its name.
func TestAStatusBehindHundredsOfOthersIsFound(t *testing.T) {
	f := newFake(t)
	cfg := provider.Config{Type: "github", Token: fakeToken}
	s, _ := newSender(t, f, cfg)
	good, late := providertest.About(needed, "info", "ReconciliationSucceeded"), providertest.About(needed, "error", "HealthCheckFailed")
	providertest.SendAll(t, s, good)
	for i := range 250 {
		f.statuses = append(f.statuses, status{State: "success", Context: fmt.Sprintf("kustomization/%d", i)})
	}
	late.Event.Timestamp, late.Replayed = time.Now().Add(-time.Minute), true
	again, _ := newSender(t, f, cfg) // as after a start
	providertest.SendAll(t, again, late, good)
	for _, set := range f.statuses[251:] {
		t.Errorf("set again: %s %s", set.State, set.Context)
	}
}

func TestANameOfTheProvidersOwnIsUsed(t *testing.T) {
	f := newFake(t)
	s, _ := newSender(t, f, provider.Config{Type: "github", Token: fakeToken, StatusName: func(_ context.Context, n provider.Notification) (string, error) {
		return "Prod/" + n.Event.InvolvedObject.Name, nil
	}})
	providertest.SendAll(t, s, providertest.About(needed, "error", "X"))
	if f.statuses[0].Context != "Prod/apps" {
		t.Errorf("got %q", f.statuses[0].Context)
	}
}

// Fails when an object gets a second comment on a pull request, or a comment with the same text is edited.
func TestOneCommentIsWrittenAndEdited(t *testing.T) {
	for login, cfg := range map[string]provider.Config{
		"flux-user":     {Type: "githubpullrequestcomment", Password: fakeToken},
		"flux-app[bot]": appConfig(t, "githubpullrequestcomment"),
	} {
		f := newFake(t)
		s, _ := newSender(t, f, cfg)
		for i := range 120 {
			f.comments = append(f.comments, map[string]any{"id": i + 1, "body": "LGTM", "user": map[string]any{"login": "reader"}})
		}
		bad := providertest.About(needed, "error", "HealthCheckFailed")
		providertest.SendAll(t, s, bad, bad, providertest.About(needed, "info", "ReconciliationSucceeded"))
		if n := len(f.comments); n != 121 || f.comments[120]["user"].(map[string]any)["login"] != login {
			t.Fatalf("%d comments, the last %v", n, f.comments[n-1])
		}
		if body := f.comments[120]["body"].(string); !strings.Contains(body, "ReconciliationSucceeded") ||
			!strings.HasPrefix(body, "<!-- flux-pr-comment-key:"+uid+"/Kustomization/team-a/apps -->\n") {
			t.Errorf("got %q", body)
		}
		if writes := strings.Count(strings.Join(f.log, ","), "POST repos") + strings.Count(strings.Join(f.log, ","), "PATCH"); writes != 2 {
			t.Errorf("%s: %d writes, want 2", login, writes)
		}
	}
}

func appConfig(t *testing.T, typ string) provider.Config {
	return provider.Config{Type: typ, Values: map[string]string{
		"githubAppID": "123", "githubAppInstallationID": "456", "githubAppPrivateKey": fakePEM(t),
	}}
}

func TestAnAppIsFoundByTheOwnerOfItsInstallation(t *testing.T) {
	for owner, want := range map[string]string{
		"acme": "GET orgs/acme/installation,POST app/installations/789/access_tokens",
		"octo": "GET orgs/octo/installation,GET users/octo/installation,POST app/installations/456/access_tokens",
	} {
		f := newFake(t)
		cfg := appConfig(t, "githubdispatch")
		delete(cfg.Values, "githubAppInstallationID")
		cfg.Values["githubAppInstallationOwner"] = owner
		s, _ := newSender(t, f, cfg)
		if len(f.log) != 0 {
			t.Errorf("%s: the constructor made requests: %v", owner, f.log)
		}
		providertest.SendAll(t, s, providertest.About(needed, "info", "X"))
		if got := strings.Join(f.log, ","); got != want+",POST repos/team-s3cret/apps/dispatches" {
			t.Errorf("%s: got %s", owner, got)
		}
	}
	f := newFake(t)
	cfg := appConfig(t, "githubdispatch")
	delete(cfg.Values, "githubAppInstallationID")
	cfg.Values["githubAppInstallationOwner"] = "nobody"
	s, _ := newSender(t, f, cfg)
	if err := event.AsError(s.Send(t.Context(), providertest.About(needed, "info", "X"))); err.Class != event.Permanent || err.Reason != "login of the GitHub App: HTTP 404: Not Found" {
		t.Errorf("an owner without an installation: %v", err)
	}
}

// Fails when the App's tokens are requested from the repository's API although the Secret names another.
func TestTheAppsTokensComeFromTheAPIThatTheSecretNames(t *testing.T) {
	f, apps := newFake(t), newFake(t)
	apps.prefix, f.tokens = "/apps/", apps.tokens
	cfg := appConfig(t, "githubpullrequestcomment")
	cfg.Values["githubAppBaseURL"] = providertest.NewSink(t, apps.ServeHTTP).URL + "/apps/"
	s, _ := newSender(t, f, cfg)
	providertest.SendAll(t, s, providertest.About(needed, "error", "X"))
	if want := []string{"GET app", "POST app/installations/456/access_tokens"}; !slices.Equal(apps.log, want) {
		t.Errorf("got %q, want %q", apps.log, want)
	}
	if len(f.comments) != 1 || strings.Contains(strings.Join(f.log, ","), "GET app") {
		t.Errorf("got %q", f.log)
	}
}

// Fails when a token is requested for every send, or by each of several sends at once, or used to its end.
func TestATokenOfTheAppIsKeptUntilShortlyBeforeItsEnd(t *testing.T) {
	f := newFake(t)
	s, _ := newSender(t, f, appConfig(t, "githubdispatch"))
	var sends sync.WaitGroup
	for range 8 {
		sends.Go(func() {
			if err := s.Send(t.Context(), providertest.About(needed, "info", "X")); err != nil {
				t.Error(err)
			}
		})
	}
	sends.Wait()
	if f.minted != 1 {
		t.Errorf("%d tokens for eight sends, want 1", f.minted)
	}
	for left, minted := range map[time.Duration]int{renewBefore + time.Minute: 1, renewBefore: 2} {
		f.minted, s.app.until = 1, time.Now().Add(left)
		providertest.SendAll(t, s, providertest.About(needed, "info", "X"))
		if f.minted != minted {
			t.Errorf("%v before its end: %d tokens, want %d", left, f.minted, minted)
		}
	}
}

// Fails when a token that GitHub refuses is used until its end.
func TestATokenOfTheAppThatIsRefusedIsReplacedOnce(t *testing.T) {
	f := newFake(t)
	s, _ := newSender(t, f, appConfig(t, "githubdispatch"))
	providertest.SendAll(t, s, providertest.About(needed, "info", "X"))
	clear(f.tokens)
	providertest.SendAll(t, s, providertest.About(needed, "info", "Y"))
	if f.minted != 2 || len(f.payloads) != 2 {
		t.Errorf("%d tokens, %d dispatches; want 2 and 2", f.minted, len(f.payloads))
	}
}

// Fails when limits that GitHub reports by 403 count as refusals, or refusals as limits.
func TestLimitsAreWaitedForAndRefusalsAreNot(t *testing.T) {
	soon := fmt.Sprint(time.Now().Add(10 * time.Minute).Unix())
	for name, row := range map[string]struct {
		status int
		header map[string]string
		body   string
		class  event.Class
		reason string
		least  time.Duration
	}{
		"nothing left":     {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": soon}, "", event.Retry, "HTTP 403 (rate limit)", 9 * time.Minute},
		"reset unreadable": {429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "x"}, "", event.Retry, "HTTP 429", time.Minute},
		"too much at once": {403, map[string]string{"Retry-After": "70", "X-RateLimit-Remaining": "12"}, "", event.Retry, "HTTP 403 (rate limit)", 70 * time.Second},
		"said in words":    {403, nil, `{"message":"You have exceeded a secondary rate limit."}`, event.Retry, "HTTP 403 (rate limit)", time.Minute},
		"no right":         {403, map[string]string{"X-RateLimit-Remaining": "12"}, `{"message":"Resource not accessible by integration"}`, event.Permanent, "HTTP 403: Resource not accessible by integration", 0},
		"no commit":        {422, nil, `{"message":"No commit found for SHA: s3cret"}`, event.Permanent, "HTTP 422: No commit found for SHA", 0},
		"too many":         {422, nil, `{"message":"Validation Failed","errors":[{"message":"` + mostStatuses + `"}]}`, event.Permanent, "HTTP 422: " + mostStatuses, 0},
		"other words":      {422, nil, `{"message":"s3cret"}`, event.Permanent, "HTTP 422", 0},
		"no JSON":          {404, nil, `Not Found`, event.Permanent, "HTTP 404", 0},
	} {
		s, _ := newSender(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range row.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		}), provider.Config{Type: "github", Token: fakeToken})
		err := event.AsError(s.Send(t.Context(), providertest.About(needed, "error", "X")))
		if err.Class != row.class || err.Reason != row.reason || err.RetryAfter < row.least || row.least == 0 && err.RetryAfter != 0 {
			t.Errorf("%s: got class %d, %q after %v", name, err.Class, err.Reason, err.RetryAfter)
		}
	}
}

func TestTheAPIIsThatOfTheHost(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/o/r": "https://api.github.com", "git@github.com:o/r.git": "https://api.github.com",
		"ssh://git@ssh.github.com:443/o/r": "https://api.github.com", "https://octo.ghe.com/o/r": "https://api.octo.ghe.com",
		"https://api.octo.ghe.com/o/r": "https://api.octo.ghe.com", "https://api.github.com/o/r": "https://api.github.com",
		"https://git.test:8443/o/r": "https://git.test:8443/api/v3", "ssh://git@git.test:22/o/r": "https://git.test/api/v3",
		"https://github.com.evil.test/o/r": "https://github.com.evil.test/api/v3", "https://evilghe.com/o/r": "https://evilghe.com/api/v3",
	} {
		s, err := New(provider.Config{Type: "github", Address: address, Token: "t"})
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if got := strings.TrimSuffix(s.URL().String(), "/"); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
		if limited := s.Limit().Rate > 0; limited != !strings.Contains(want, "/api/v3") {
			t.Errorf("%s: limited is %t", address, limited)
		}
	}
}

func TestABadConfigNamesWhatIsWrong(t *testing.T) {
	app := func(change func(map[string]string)) provider.Config {
		cfg := appConfig(t, "github")
		change(cfg.Values)
		return cfg
	}
	for want, cfg := range map[string]provider.Config{
		"write the key token into it":    {},
		"key token holds":                {Token: "s3cret\n"},
		"key password holds":             {Password: "s3cret\n"},
		"holds no valid certificate":     {Token: "t", Values: map[string]string{"ca.crt": "s3cret"}},
		"githubAppID is":                 app(func(v map[string]string) { v["githubAppID"] = "s3cret" }),
		"one of githubAppInstallationID": app(func(v map[string]string) { delete(v, "githubAppInstallationID") }),
		"and not both":                   app(func(v map[string]string) { v["githubAppInstallationOwner"] = "s3cret" }),
		"githubAppInstallationID is":     app(func(v map[string]string) { v["githubAppInstallationID"] = "s3cret" }),
		"githubAppPrivateKey is":         app(func(v map[string]string) { v["githubAppPrivateKey"] = "s3cret" }),
		"githubAppBaseURL: address":      app(func(v map[string]string) { v["githubAppBaseURL"] = "ftp://s3cret" }),
		"githubAppBaseURL: ":             app(func(v map[string]string) { v["githubAppBaseURL"] = "https://169.254.169.254/s3cret" }),
	} {
		cfg.Type, cfg.Address = "github", "https://github.com/o/r"
		if s, err := New(cfg); err == nil || s != nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, %v", want, s, err)
		}
	}
	if _, err := New(provider.Config{Type: "github", Address: "https://github.com/a/b/c", Token: "t"}); err == nil {
		t.Error("a path of three parts is taken for a repository")
	}
}

// Fails when a dispatch has more than GitHub's ten fields, or when an event that fits lacks one.
func TestAnEventWithAllItsFieldsIsDispatched(t *testing.T) {
	f := newFake(t)
	s, _ := newSender(t, f, provider.Config{Type: "githubdispatch", Token: fakeToken})
	n := providertest.Notifications(t)["error"]
	n.Event.Action, n.Event.ReportingInstance, n.Event.Metadata = "Reconcile", "pod", map[string]string{"a": "b"}
	for i, related := range []*event.ObjectReference{nil, {Kind: "Deployment", Name: "app"}} {
		n.Event.RelatedObject = related
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		p := f.payloads[i]
		if _, there := p["reportingInstance"]; there != (related == nil) || p["action"] == nil || p["deliveryID"] == nil || len(p) != 10 {
			t.Errorf("related object %v: %d fields: %v", related, len(p), p)
		}
	}
}

// Fails when the length of a dispatch is unbounded.
func TestTheWorstEventStillFitsIntoADispatch(t *testing.T) {
	f := newFake(t)
	s, _ := newSender(t, f, provider.Config{Type: "githubdispatch", Token: fakeToken})
	for _, r := range []string{"x", "<", "\x01", "😀", "\xff"} {
		n := providertest.About(needed, "error", strings.Repeat(r, 1000))
		n.Event.InvolvedObject.Name = strings.Repeat(r, 253)
		n.Event.Message = strings.Repeat(r, 128<<10) // several times what is kept of it, and of the metadata
		n.Event.Metadata = map[string]string{}
		for i := range 400 {
			n.Event.Metadata[strings.Repeat(r, 5)+fmt.Sprint(i)] = strings.Repeat(r, 500)
		}
		providertest.SendAll(t, s, n)
	}
	providertest.SendAll(t, s, providertest.About(needed, "info", "X"))
	last := f.payloads[len(f.payloads)-1]
	if last["deliveryID"] != "d1" || last["metadata"].(map[string]any)["commit"] != commit || last["message"] != "X" {
		t.Errorf("got %v", last)
	}
}

// Fails when a replayed failure replaces a newer status of the same name.
func TestALateFailureIsNotSetOverANewerSuccess(t *testing.T) {
	f := newFake(t)
	cfg := provider.Config{Type: "github", Token: fakeToken}
	s, _ := newSender(t, f, cfg)
	late := providertest.About(needed, "error", "HealthCheckFailed")
	late.Event.Timestamp, late.Replayed = time.Now().Add(-time.Minute), true
	providertest.SendAll(t, s, providertest.About(needed, "info", "ReconciliationSucceeded"), late)
	again, _ := newSender(t, f, cfg)
	providertest.SendAll(t, again, late)
	if len(f.statuses) != 1 || f.statuses[0].State != "success" {
		t.Errorf("got %+v", f.statuses)
	}
}

func TestALateFailureDoesNotReplaceTheTextOfANewerSuccess(t *testing.T) {
	f := newFake(t)
	providertest.LateComment(t, needed, func() provider.Sender {
		s, _ := newSender(t, f, provider.Config{Type: "githubpullrequestcomment", Token: fakeToken})
		return s
	}, func() string { return fmt.Sprint(f.comments) })
}

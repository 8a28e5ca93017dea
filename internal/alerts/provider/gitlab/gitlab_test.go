package gitlab

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	repo = "group/sub/s3cret.git"
	uid  = "0c9c2e41-d2f9-4f9b-9c41-bebc1984d67a"
)

var needed = map[string]string{"commit": commit, "change_request": "7"}

var build = providertest.BuildWith(New, needed)

// forgetful is a GitLab that keeps nothing, so that every send makes the same requests.
func forgetful(w http.ResponseWriter, r *http.Request) { new(fakeGitLab).ServeHTTP(w, r) }

func TestContract(t *testing.T) {
	for typ, requests := range map[string]int{"gitlab": 2, "gitlabmergerequestcomment": 3} {
		t.Run(typ, func(t *testing.T) {
			providertest.Run(t, providertest.Subject{
				New: build, Config: provider.Config{Type: typ, Token: fakeToken, UID: uid}, Path: repo, Requests: requests, Reads: true,
				Serve: forgetful,
			})
		})
	}
}

// newSender returns a Sender of a type to GitLab.
func newSender(t *testing.T, h http.HandlerFunc, typ string) (provider.Sender, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	return providertest.NewSender(t, New, provider.Config{
		Type: typ, Address: sink.URL + "/" + repo, Password: fakeToken, UID: uid, Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	for _, typ := range []string{"gitlab", "gitlabmergerequestcomment"} {
		s, sink := newSender(t, forgetful, typ)
		sender := providertest.WithMetadata(s, needed)
		if err := sender.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil { // requests the token's owner
			t.Fatal(err)
		}
		t.Run(typ, func(t *testing.T) { providertest.Golden(t, typ, sender, sink) })
	}
}

// Fails when a status is set that GitLab has already, or when the first listed status counts as the last.
func TestAStatusIsSetWhereTheLastOneDiffers(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		setWhereDifferent(t, &fakeGitLab{ordered: ordered})
	}
}

func setWhereDifferent(t *testing.T, f *fakeGitLab) {
	t.Helper()
	s, _ := newSender(t, f.ServeHTTP, "gitlab")
	bad, good := providertest.About(needed, "error", "HealthCheckFailed"), providertest.About(needed, "info", "ReconciliationSucceeded")
	late := providertest.About(needed, "error", "BuildFailed")
	late.Replayed, late.Event.Timestamp = true, time.Now().Add(-time.Minute)
	providertest.SendAll(t, s, bad, bad, good, good, bad, bad, good, late)
	var got []string
	for _, j := range f.jobs {
		got = append(got, j.Status+" "+j.Name+" "+j.Description)
	}
	const name = "kustomization/apps/0c9c2e41 "
	failed, success := "failed "+name+"health check failed", "success "+name+"reconciliation succeeded"
	if want := []string{failed, success, failed, success}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	again, _ := newSender(t, f.ServeHTTP, "gitlab")
	if providertest.SendAll(t, again, late); len(f.jobs) != 4 {
		t.Errorf("a late failure is set over a newer success: %+v", f.jobs[4])
	}
}

// Fails when an object gets a second comment on a merge request, when a reader's comment is edited, or when a comment with the same
// text is edited.
func TestOneCommentIsWrittenAndEdited(t *testing.T) {
	f := &fakeGitLab{}
	mark := "<!-- flux-mr-comment-key:" + uid + "/Kustomization/team-a/apps -->"
	for i := range 120 {
		f.notes = append(f.notes, note{ID: i + 1, Body: mark, Author: user{2, "reader"}})
	}
	s, _ := newSender(t, f.ServeHTTP, "gitlabmergerequestcomment")
	bad := providertest.About(needed, "error", "HealthCheckFailed")
	providertest.SendAll(t, s, bad, bad, providertest.About(needed, "info", "ReconciliationSucceeded"))
	last := f.notes[len(f.notes)-1]
	if len(f.notes) != 121 || last.Author.ID != 1 || !strings.HasPrefix(last.Body, mark+"\n") || !strings.Contains(last.Body, "ReconciliationSucceeded") {
		t.Errorf("%d comments, the last %+v", len(f.notes), last)
	}
	writes := slices.DeleteFunc(f.asked, func(route string) bool { return strings.HasPrefix(route, "GET") })
	if want := []string{"POST /merge_requests/7/notes", "PUT /merge_requests/7/notes/121"}; !slices.Equal(writes, want) {
		t.Errorf("got %q, want %q", writes, want)
	}
}

// Fails when a line of an event's text begins with a slash, which GitLab would obey.
func TestNoTextOfAnEventIsAnOrder(t *testing.T) {
	f := &fakeGitLab{}
	s, _ := newSender(t, f.ServeHTTP, "gitlabmergerequestcomment")
	n := providertest.About(needed, "error", "x")
	n.Event.Message = "/merge\n  /approve\r\n\t/close\r/assign @root"
	n.Event.Metadata = map[string]string{"commit": commit, "change_request": "7", "a\n/merge": "b\n/close", "summary": "c\n/close"}
	n.Authored = []string{"summary"}
	providertest.SendAll(t, s, n)
	for line := range strings.Lines(f.notes[0].Body) {
		if strings.HasPrefix(strings.TrimSpace(line), "/") {
			t.Errorf("the line %q is an order", line)
		}
	}
}

func TestTheProjectIsAPathOrANumber(t *testing.T) {
	for address, want := range map[string]string{
		"https://gitlab.com/a/b/c":                           "https://gitlab.com/api/v4/projects/a%2Fb%2Fc",
		"git@gitlab.com:a/b.git":                             "https://gitlab.com/api/v4/projects/a%2Fb",
		"ssh://git@altssh.gitlab.com:443/a/b":                "https://gitlab.com/api/v4/projects/a%2Fb",
		"https://gitlab.com/1234":                            "https://gitlab.com/api/v4/projects/1234",
		"http://git.test:8080/a/b":                           "http://git.test:8080/api/v4/projects/a%2Fb",
		"https://git.test/gitlab/api/v4/projects/1234":       "https://git.test/gitlab/api/v4/projects/1234",
		"https://git.test/x/y/api/v4/projects/a%2Fb%2Fc.git": "https://git.test/x/y/api/v4/projects/a%2Fb%2Fc",
		"https://git.test/x/api/v4/projects/api/v4/projects": "https://git.test/x/api/v4/projects/api%2Fv4%2Fprojects",
		"https://gitlab.com/api/v4/projects/1234":            "https://gitlab.com/api/v4/projects/1234",
		"https://git.test/a/api/v4/b":                        "https://git.test/api/v4/projects/a%2Fapi%2Fv4%2Fb",
		"https://gitlab.com.evil.test/a/b?x=y#z":             "https://gitlab.com.evil.test/api/v4/projects/a%2Fb",
	} {
		p, err := newProject(provider.Config{Type: "gitlab", Address: address, Token: "t"})
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if got := p.url().String(); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
		if limited := p.client.Limit().Rate > 0; limited != strings.HasPrefix(want, "https://gitlab.com/") {
			t.Errorf("%s: limited is %t", address, limited)
		}
	}
}

func TestABadTokenIsNamed(t *testing.T) {
	for _, token := range []string{"", "s3cret\n", "s3cret\x00", "s3crét"} {
		s, err := New(provider.Config{Type: "gitlab", Address: "https://gitlab.com/a/b", Token: token})
		if s != nil || err == nil || !strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "s3cr") {
			t.Errorf("%q: got %v", token, err)
		}
	}
}

// Fails when the TLS material of the main Secret goes unused.
func TestTheSecretsOwnAuthorityCounts(t *testing.T) {
	_, err := New(provider.Config{
		Type: "gitlab", Address: "https://gitlab.com/a/b", Token: "t", Values: map[string]string{"caFile": "s3cret"},
	})
	if err == nil || !strings.Contains(err.Error(), "ca.crt (or caFile) holds no valid certificate") {
		t.Errorf("got %v", err)
	}
}

// Fails when a known message of GitLab is left out, or when any other part of an answer is shown.
func TestGitLabsOwnWordsAreShownAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"404 Project Not Found"}`:                                      "HTTP 400: 404 Project Not Found",
		`{"message":"Cannot transition status via :enqueue from :pending (hush)"}`: "HTTP 400: Cannot transition status",
		`{"error":"insufficient_scope","error_description":"hush","scope":"api"}`:  "HTTP 400: insufficient_scope",
		`{"message":{"name":["hush"]}}`:                                            "HTTP 400",
		`{"message":"hush","error":"hush"}`:                                        "HTTP 400",
		`<html>404 Project Not Found`:                                              "HTTP 400",
	} {
		s, _ := newSender(t, providertest.Says(http.StatusBadRequest, body), "gitlab")
		if got := event.AsError(s.Send(t.Context(), providertest.About(needed, "error", "X"))); got.Reason != want || got.Class != event.Permanent {
			t.Errorf("%s: got %q, want %q", body, got.Reason, want)
		}
	}
}

// Fails when a status is given up because another one is set on the same commit: objects of one commit become ready together, and GitLab
// holds a lock on the commit while it sets a status.
func TestAStatusWaitsForTheLockOfItsCommit(t *testing.T) {
	f := &fakeGitLab{locked: true}
	s, _ := newSender(t, f.ServeHTTP, "gitlab")
	n := providertest.About(needed, "info", "ReconciliationSucceeded")
	e := event.AsError(s.Send(t.Context(), n))
	if e.Class != event.Retry || e.Reason != "HTTP 409: 409 Conflict: Resource lock" {
		t.Errorf("got class %d, %q", e.Class, e.Reason)
	}
	f.unlock()
	if providertest.SendAll(t, s, n); len(f.jobs) != 1 {
		t.Errorf("got %d statuses, want one", len(f.jobs))
	}
}

func TestALateFailureDoesNotReplaceTheTextOfANewerSuccess(t *testing.T) {
	f := &fakeGitLab{}
	providertest.LateComment(t, needed, func() provider.Sender {
		s, _ := newSender(t, f.ServeHTTP, "gitlabmergerequestcomment")
		return s
	}, func() string { return fmt.Sprint(f.notes) })
}

package bitbucketserver

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	commit = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"
	uid    = "0c9c2e41-8a43-4bd5-9d0c-6a2f6f1f5c11"
)

var newForTest = providertest.BuildWith(New, map[string]string{"commit": commit})

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    newForTest,
		Config: provider.Config{Type: "bitbucketserver", UID: uid, Token: "http-s3cret"},
		Serve:  (&vendor{auth: "Bearer http-s3cret"}).ServeHTTP, Requests: 2, Path: "scm/team-a/fleet-s3cret.git", Reads: true,
	})
}

// newTo returns a Sender to v.
func newTo(t *testing.T, v *vendor) (provider.Sender, *providertest.Sink) {
	t.Helper()
	v.auth = "Bearer http-s3cret"
	sink := providertest.NewSink(t, v.ServeHTTP)
	return providertest.NewSender(t, newForTest, provider.Config{
		Type: "bitbucketserver", Address: sink.URL + "/git/scm/team-a/fleet.git", UID: uid, Token: "http-s3cret",
		Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, (&vendor{auth: "Bearer http-s3cret"}).ServeHTTP)
	proxy := providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p") // for a constant name of the server
	s := providertest.NewSender(t, newForTest, provider.Config{
		Address: "http://bitbucket.test/git/scm/team-a/fleet.git", UID: uid, Token: "http-s3cret", Network: providertest.Loopback(),
		Proxy: provider.Proxy{Address: proxy.URL, Username: "u", Password: "p"},
	})
	providertest.Golden(t, "status", s, sink)
}

// Fails when a status is posted although the last one of its key is the same, or is not posted although it differs.
func TestAStatusIsPostedWhenTheLastOfItsKeyDiffers(t *testing.T) {
	v := &vendor{keep: true}
	s, _ := newTo(t, v)
	providertest.Statuses(t, s, func() int { return v.posts })
	if len(v.builds) != 1 { // the SHA-1 of kustomization/apps/0c9c2e41
		t.Errorf("one object has the statuses %v", v.builds)
	}
}

// Fails when a replay ignores the time at which Bitbucket took the last status, or an older status counts as newer than the event.
func TestAReplayedFailureDoesNotReplaceANewerStatus(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).UnixMilli() // the event's
	for updated, posts := range map[int64]int{at - 1: 2, at + 1: 1, 0: 2} {
		v := &vendor{keep: true}
		first, _ := newTo(t, v)
		providertest.SendAll(t, first, providertest.Notifications(t)["info"])
		for _, b := range v.builds {
			b["updatedDate"] = updated
		}
		s, _ := newTo(t, v) // another process
		n := providertest.Notifications(t)["error"]
		n.Replayed = true
		if providertest.SendAll(t, s, n); v.posts != posts {
			t.Errorf("after a status of %d: %d posts, want %d", updated, v.posts, posts)
		}
	}
}

// Fails when an attempt whose answer was lost posts twice.
func TestAnAttemptWhoseAnswerWasLostPostsOnce(t *testing.T) {
	v := &vendor{keep: true, auth: "Bearer http-s3cret"}
	providertest.LoseAnswer(t, v.ServeHTTP, func(address string) (provider.Sender, error) {
		return newForTest(provider.Config{Address: address + "/scm/o/r", Token: "http-s3cret", Network: providertest.Loopback()})
	})
	if v.posts != 1 {
		t.Errorf("%d were posted", v.posts)
	}
}

// Fails when the path that the server is installed under is lost, or an address other than one for cloning over HTTP is accepted.
func TestTheAddressIsThatForCloning(t *testing.T) {
	for address, want := range map[string]string{
		"https://bb.test/scm/p/r.git":             "https://bb.test/ p r",
		"http://user@bb.test:7990/scm/~jane/r":    "http://bb.test:7990/ ~jane r",
		"https://bb.test/a%20b/scm/scm/p/r.git":   "https://bb.test/a%20b/scm p r",
		"HTTPS://bb.test/bitbucket/scm/p/r.git/?": "https://bb.test/bitbucket p r",
		"https://bb.test/projects/p/repos/r":      "",
		"https://bb.test/p/r":                     "",
		"https://bb.test/scm/p":                   "",
		"ssh://git@bb.test/scm/p/r.git":           "",
		"git@bb.test:scm/p/r.git":                 "",
	} {
		cfg := provider.Config{Address: address}
		h, err := locate(&cfg)
		if got := cfg.Address + " " + h.project + " " + h.repo; want != "" && (err != nil || got != want) || want == "" && err == nil {
			t.Errorf("%s: got %s, %v; want %s", address, got, err, want)
		}
	}
	if _, err := New(provider.Config{Token: "t"}); !errors.Is(err, provider.ErrNoAddress) {
		t.Errorf("got %v, want an error that says where an address is looked for", err)
	}
}

// Fails when a link is longer than Bitbucket takes, or shows the credentials in the address.
func TestTheLinkFitsBitbucketsLimits(t *testing.T) {
	for _, path := range []string{"p/r", "p/" + strings.Repeat("r", 1000)} {
		cfg := provider.Config{Address: "https://user:s3cret@bb.test/scm/" + path, Token: "t"}
		h, err := locate(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		if h.client, err = provider.NewClient(cfg, provider.ClientOptions{}); err != nil {
			t.Fatal(err)
		}
		if link := h.link(commit); len(link) > 450 || strings.Contains(link, "s3cret") || !strings.HasPrefix(link, "https://bb.test") {
			t.Error(link)
		}
	}
}

// Fails when a known message of Bitbucket is left out, or when any other part of an answer is shown.
func TestKnownReasonsAreShownAndNothingElse(t *testing.T) {
	providertest.Refusals(t, map[string]string{
		`{"errors":[{"message":"s3cret","exceptionName":"com.atlassian.bitbucket.AuthorisationException"}]}`: "HTTP 403: AuthorisationException",
		`{"errors":[{"message":"s3cret","exceptionName":"com.atlassian.s3cret"}]}`:                           "HTTP 403",
		`{"errors":[]}`: "HTTP 403",
		`s3cret`:        "HTTP 403",
		``:              "HTTP 403",
	}, func(address string) (provider.Sender, error) {
		return newForTest(provider.Config{Address: address + "/scm/o/r", Token: "t", Network: providertest.Loopback()})
	})
}

// Fails when an answer that is not Bitbucket's counts as no status, or the TLS material of the Secret is not used.
func TestAReplyNotFromBitbucketIsARetryableError(t *testing.T) {
	sink := providertest.NewSink(t, providertest.Says(http.StatusOK, "<html>"))
	s := providertest.NewSender(t, newForTest, provider.Config{Address: sink.URL + "/scm/o/r", Token: "t", Network: providertest.Loopback()})
	e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
	if e == nil || e.Class != event.Retry || e.Label != provider.LabelReply {
		t.Errorf("got %v", e)
	}
	values := map[string]string{"ca.crt": "none"}
	if _, err := New(provider.Config{Address: "https://bb.test/scm/o/r", Token: "t", Values: values}); err == nil {
		t.Error("New took a CA that is none")
	}
}

// Fails when a text is longer than Bitbucket takes.
func TestTheLongestTextsAreTaken(t *testing.T) {
	v := &vendor{}
	s, _ := newTo(t, v)
	n := providertest.Notifications(t)["error"]
	n.Event.Reason = strings.Repeat("Äx", 1000)
	n.Event.InvolvedObject.Kind, n.Event.InvolvedObject.Name = strings.Repeat("K", 253), strings.Repeat("ä", 126)
	if providertest.SendAll(t, s, n); v.posts != 1 {
		t.Errorf("%d were posted", v.posts)
	}
}

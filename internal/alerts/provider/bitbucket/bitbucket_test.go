package bitbucket

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	commit = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"
	uid    = "0c9c2e41-8a43-4bd5-9d0c-6a2f6f1f5c11"
)

// newForTest returns a Sender whose API is at the host of the address, and whose repository is at its path.
func newForTest(cfg provider.Config) (provider.Sender, error) {
	api := cfg.Address
	if scheme, rest, found := strings.Cut(api, "://"); found {
		at, path, _ := strings.Cut(rest, "/")
		api, cfg.Address = scheme+"://"+at, site+"/"+path
	}
	s, err := newSender(cfg, api)
	if err != nil {
		return nil, err
	}
	return providertest.WithMetadata(s, map[string]string{"commit": commit}), nil
}

var authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte("flux@example.com:api-s3cret"))

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    newForTest,
		Config: provider.Config{Type: "bitbucket", UID: uid, Token: "flux@example.com:api-s3cret"},
		Serve:  (&vendor{auth: authorization}).ServeHTTP, Requests: 2, Path: "team-a/fleet-s3cret.git", Reads: true,
	})
}

// newTo returns a Sender to v.
func newTo(t *testing.T, v *vendor) (provider.Sender, *providertest.Sink) {
	t.Helper()
	v.auth = authorization
	sink := providertest.NewSink(t, v.ServeHTTP)
	return providertest.NewSender(t, newForTest, provider.Config{
		Type: "bitbucket", Address: sink.URL + "/team-a/fleet", UID: uid, Token: "flux@example.com:api-s3cret", Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newTo(t, &vendor{})
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
	for updated, posts := range map[string]int{
		"2026-03-04T05:06:06.999999+00:00": 2, "2026-03-04T06:06:07.000001+01:00": 1, "2027-01-01T00:00:00Z": 1, "nonsense": 2,
	} {
		v := &vendor{keep: true}
		first, _ := newTo(t, v)
		providertest.SendAll(t, first, providertest.Notifications(t)["info"])
		for _, b := range v.builds {
			b["updated_on"] = updated
		}
		s, _ := newTo(t, v)                         // another process
		n := providertest.Notifications(t)["error"] // of 05:06:07
		n.Replayed = true
		if providertest.SendAll(t, s, n); v.posts != posts {
			t.Errorf("after a status of %s: %d posts, want %d", updated, v.posts, posts)
		}
	}
}

// Fails when an attempt whose answer was lost posts twice.
func TestAnAttemptWhoseAnswerWasLostPostsOnce(t *testing.T) {
	v := &vendor{keep: true, auth: authorization}
	providertest.LoseAnswer(t, v.ServeHTTP, func(address string) (provider.Sender, error) {
		return newForTest(provider.Config{Address: address + "/o/r", Token: "flux@example.com:api-s3cret", Network: providertest.Loopback()})
	})
	if v.posts != 1 {
		t.Errorf("%d were posted", v.posts)
	}
}

// Fails when a form of credentials that Flux's users have, or that Bitbucket issues today, is refused, or when a faulty one is sent or
// quoted.
func TestCredentials(t *testing.T) {
	basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
	for name, c := range map[string]struct {
		cfg  provider.Config
		want string
	}{
		"an app password":             {provider.Config{Token: "user:p4ss"}, basic("user:p4ss")},
		"an API token":                {provider.Config{Token: "me@example.com:ATATT3=A1"}, basic("me@example.com:ATATT3=A1")},
		"a repository's access token": {provider.Config{Token: "ATCTT3xFf="}, "Bearer ATCTT3xFf="},
		"a pair":                      {provider.Config{Username: "user", Password: "p4:ss"}, basic("user:p4:ss")},
		"a token before a pair":       {provider.Config{Token: "abc", Username: "user", Password: "p4ss"}, "Bearer abc"},
		"two colons":                  {provider.Config{Token: "user:s3cret:s3cret"}, ""},
		"no password":                 {provider.Config{Token: "s3cret:"}, ""},
		"no user":                     {provider.Config{Token: ":s3cret"}, ""},
		"a line end":                  {provider.Config{Token: "s3cret\n"}, ""},
		"a line end after a password": {provider.Config{Token: "user:s3cret\n"}, ""},
		"half a pair":                 {provider.Config{Username: "s3cret"}, ""},
		"the other half":              {provider.Config{Password: "s3cret"}, ""},
		"nothing":                     {provider.Config{}, ""},
	} {
		header, err := login(c.cfg)
		if got := header.Get("Authorization"); got != c.want || (err == nil) != (c.want != "") || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
}

func TestTheAddressIsThatOfARepository(t *testing.T) {
	for address, want := range map[string]string{
		"https://bitbucket.org/o/r": "o/r", "https://bitbucket.org/o/r.git": "o/r", "git@bitbucket.org:o/r.git": "o/r",
		"ssh://git@bitbucket.org/o/r": "o/r", "https://user@bitbucket.org/o/r": "o/r", "https://bitbucket.org/%7B1%7D/%7B2%7D": "{1}/{2}",
		"https://bitbucket.org/o": "", "https://bitbucket.example.com/scm/o/r": "", "": "",
	} {
		h, err := locate(address)
		if got := strings.Trim(h.owner+"/"+h.repo, "/"); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %s, %v; want %s", address, got, err, want)
		}
	}
	if _, err := New(provider.Config{Token: "t"}); !errors.Is(err, provider.ErrNoAddress) {
		t.Errorf("got %v, want an error that says where an address is looked for", err)
	}
}

// Fails when a link is longer than Bitbucket takes, or contains a template of Bitbucket's.
func TestTheLinkFitsBitbucketsLimits(t *testing.T) {
	for _, h := range []host{{owner: strings.Repeat("o", 1000), repo: "r"}, {owner: "{1}", repo: "{repository.full_name}"}} {
		link := h.build(githost.Status{Commit: commit}).URL
		if len(link) > 450 || strings.ContainsAny(link, "{}") || !strings.HasPrefix(link, site) {
			t.Error(link)
		}
	}
}

// Fails when the limit applies to another host, or exceeds Bitbucket's in an hour that begins with a burst.
func TestOnlyBitbucketsOwnHostIsLimited(t *testing.T) {
	if perHour := 2 * (float64(limit.Rate)*3600 + float64(limit.Burst)); perHour > 1000 {
		t.Errorf("%v requests an hour", perHour)
	}
	for base, limited := range map[string]bool{
		"": true, api: true, "https://API.bitbucket.org./2.0": true, "https://api.bitbucket.org.example.com": false,
	} {
		t.Setenv(apiVariable, base)
		s := providertest.NewSender(t, New, provider.Config{Address: site + "/o/r", Token: "t"})
		if got := provider.Limited(s).Limit(); (got == limit) != limited || !limited && got != (provider.Limit{}) {
			t.Errorf("%s: %+v", base, got)
		}
	}
}

// Fails when a known message of Bitbucket is left out, or when any other part of an answer is shown.
func TestKnownReasonsAreShownAndNothingElse(t *testing.T) {
	providertest.Refusals(t, map[string]string{
		`{"type":"error","error":{"message":"Your credentials lack one or more required privilege scopes.","detail":{"x":1}}}`://
		"HTTP 403: Your credentials lack one or more required privilege scopes.",
		`{"type":"error","error":{"message":"s3cret"}}`: "HTTP 403",
		`s3cret`: "HTTP 403",
		``:       "HTTP 403",
	}, func(address string) (provider.Sender, error) {
		return newForTest(provider.Config{Address: address + "/o/r", Token: "t", Network: providertest.Loopback()})
	})
}

// Fails when an answer that is not Bitbucket's counts as no status, or the TLS material of the Secret is not used.
func TestAReplyNotFromBitbucketIsARetryableError(t *testing.T) {
	sink := providertest.NewSink(t, providertest.Says(http.StatusOK, "<html>"))
	s := providertest.NewSender(t, newForTest, provider.Config{Address: sink.URL + "/o/r", Token: "t", Network: providertest.Loopback()})
	e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
	if e == nil || e.Class != event.Retry || e.Label != provider.LabelReply {
		t.Errorf("got %v", e)
	}
	if _, err := New(provider.Config{Address: site + "/o/r", Token: "t", Values: map[string]string{"ca.crt": "none"}}); err == nil {
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

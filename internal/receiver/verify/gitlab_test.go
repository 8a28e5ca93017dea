package verify

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/answer"
)

func TestGitLabRequiresTheToken(t *testing.T) {
	try(t, "gitlab", map[string]attempt{
		"the token":         {header("X-Gitlab-Token", token), nil},
		"no token":          {header(), refusedNoToken},
		"an empty token":    {header("X-Gitlab-Token", ""), refusedNoToken},
		"more than it":      {header("X-Gitlab-Token", token+"x"), refusedToken},
		"the token's start": {header("X-Gitlab-Token", token[:3]), refusedToken},
		"a signature alone": {message(token, "1", time.Now(), attemptBody), refusedNoToken},
	})
	if verifierOf(t, "gitlab", token).KeepsBody() {
		t.Error("the body of a hook with a secret token is kept in memory")
	}
}

// Fails when a signature is not required, not checked, or can be replaced by another header.
func TestGitLabsSigningTokenRequiresASignatureOrTheTokenItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := verifierOf(t, "gitlab", signingSecret)
		attempts := standardAttempts()
		now := time.Now()
		attempts["signed, beside another secret token"] = attempt{message(signingKey, "1", now, attemptBody, "X-Gitlab-Token", "other"), nil}
		attempts["the token itself, of a hook without signatures"] = attempt{header("X-Gitlab-Token", signingSecret), nil}
		attempts["another secret token alone"] = attempt{header("X-Gitlab-Token", "other"), refusedToken}
		attempts["the key as secret token"] = attempt{header("X-Gitlab-Token", signingKey), refusedToken}
		attempts["the token without its prefix"] = attempt{header("X-Gitlab-Token", strings.TrimPrefix(signingSecret, "whsec_")), refusedToken}
		attempts["neither"] = attempt{header(), refusedNoSignature}
		attempts["a bad signature beside the token itself"] = attempt{message("other", "1", now, attemptBody, "X-Gitlab-Token", signingSecret), refusedMismatch}
		attempts["an old signature beside the token itself"] = attempt{
			message(signingKey, "1", now.Add(-time.Hour), attemptBody, "X-Gitlab-Token", signingSecret), refusedWindow,
		}
		for name, a := range attempts {
			if got := verify(v, a.header, attemptBody); !errors.Is(got, a.want) {
				t.Errorf("%s: got %v, want %v", name, got, a.want)
			}
		}
		if v.Type() != "gitlab" {
			t.Errorf("Type = %s", v.Type())
		}
	})
}

// Fails when a secret token with the prefix of a signing token stops working, or becomes a key that everybody has.
func TestGitLabsOtherTokensWithThePrefixStaySecretTokens(t *testing.T) {
	for _, secret := range []string{"whsec_", "whsec_\n", "whsec_my-own", "WHSEC_MDEyMw=="} {
		v := verifierOf(t, "gitlab", secret)
		if err := verify(v, http.Header{"X-Gitlab-Token": {secret}}, ""); err != nil {
			t.Errorf("%q: %v", secret, err)
		}
		if err := verify(v, message("", "1", time.Now(), ""), ""); !errors.Is(err, refusedNoToken) {
			t.Errorf("%q: signed with the empty key: %v, want %v", secret, err, refusedNoToken)
		}
	}
}

func TestGitLabReadsEventAndDelivery(t *testing.T) {
	cases := map[string]struct {
		header http.Header
		want   Event
	}{
		"the key": {
			header("X-Gitlab-Event", "Push Hook", "Idempotency-Key", "1", "X-Gitlab-Event-UUID", "2", "webhook-id", "3"),
			Event{Name: "Push Hook", Selects: true, Delivery: "1"},
		},
		"the event's ID":   {header("X-Gitlab-Event-UUID", "2", "webhook-id", "3"), Event{Selects: true, Delivery: "2"}},
		"the message's ID": {header("webhook-id", "3"), Event{Selects: true, Delivery: "3"}},
		"none":             {header(), Event{Selects: true}},
	}
	reads(t, "gitlab", cases)
	signed := verifierOf(t, "gitlab", signingSecret)
	for name, c := range cases {
		if content, err := signed.Content(t.Context(), c.header, []byte("{}")); err != nil || content.Event != c.want || string(content.Document) != "{}" {
			t.Errorf("%s, of a signing token: %+v, %v; want %+v", name, content, err, c.want)
		}
	}
}

func FuzzGitLab(f *testing.F) {
	fuzzVerifier(f, "gitlab", []string{"X-Gitlab-Token"}, []string{token, token + "x"}, func(h http.Header, _ string) bool {
		return h.Get("X-Gitlab-Token") == token
	})
}

// FuzzGitLabSigned checks that a request passes only with the token itself and no signature, or with a signature of the
// key.
func FuzzGitLabSigned(f *testing.F) {
	f.Add("", "1", "", true, "{}")
	f.Add(signingSecret, "1", "", false, "{}")
	f.Add(signingSecret, "1", "v1,", false, "")
	f.Add("other", "a.b", "v1,AAAA ", true, "\x00")
	v := verifierOf(f, "gitlab", signingSecret)
	f.Fuzz(func(t *testing.T, secret, id, signatures string, sign bool, body string) {
		h := message(signingKey, id, time.Now(), body, "X-Gitlab-Token", secret)
		if sign {
			signatures += " " + h.Get("webhook-signature")
		}
		h.Set("webhook-signature", signatures)
		err := verify(v, h, body)
		if _, ok := errors.AsType[answer.Refusal](err); err != nil && !ok {
			t.Fatalf("%v is no Refusal", err)
		}
		if err == nil && !sign && (secret != signingSecret || signatures != "") {
			t.Fatalf("%v was accepted", h)
		}
	})
}

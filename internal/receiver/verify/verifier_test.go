package verify

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"slices"
	"strings"
	"testing"

	"notifier/internal/receiver/answer"
)

// hexMAC returns the HMAC of body in hex.
func hexMAC(h func() hash.Hash, key, body string) string {
	mac := hmac.New(h, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func signWith(name string, h func() hash.Hash, key, body string) string {
	return name + "=" + hexMAC(h, key, body)
}

func verifierOf(t testing.TB, kind, key string) Verifier {
	t.Helper()
	v, err := New(kind, Credentials{Token: []byte(key)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// verify runs one request through a verifier as the handler does.
func verify(v Verifier, h http.Header, body string) error {
	check, err := v.Begin(context.Background(), h)
	if err != nil {
		return err
	}
	_, _ = check.Write([]byte(body))
	var kept []byte
	if v.KeepsBody() {
		kept = []byte(body)
	}
	_, err = check.Finish(kept)
	return err
}

// header returns a JSON request's header with these names and values, of which later ones win.
func header(namesAndValues ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(namesAndValues); i += 2 {
		h.Set(namesAndValues[i], namesAndValues[i+1])
	}
	return h
}

// attempt is a request to a verifier and the refusal for it, nil for none.
type attempt struct {
	header http.Header
	want   error
}

const attemptBody = `{"ref":"refs/heads/main"}`

// try makes every attempt with attemptBody at a verifier of token, more than once: a pooled check must be as good as a
// new one.
func try(t *testing.T, kind string, attempts map[string]attempt) {
	t.Helper()
	v := verifierOf(t, kind, token)
	if v.Type() != kind {
		t.Errorf("Type = %s, want %s", v.Type(), kind)
	}
	for name, a := range attempts {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				if got := verify(v, a.header, attemptBody); !errors.Is(got, a.want) {
					t.Fatalf("got %v, want %v", got, a.want)
				}
			}
		})
	}
}

// reads checks the events that a verifier reads from the headers of requests.
func reads(t *testing.T, kind string, events map[string]struct {
	header http.Header
	want   Event
},
) {
	t.Helper()
	v := verifierOf(t, kind, token)
	for name, e := range events {
		if got, err := v.Content(t.Context(), e.header, nil); err != nil || got.Event != e.want {
			t.Errorf("%s: got %+v, want %+v", name, got, e.want)
		}
	}
}

// Fails when New does not check the token: an empty key would accept everybody's empty signature.
func TestAnEmptyTokenIsRefusedByEveryTypeThatHasOne(t *testing.T) {
	for _, kind := range Types() {
		if !NeedsSecret(kind) {
			continue
		}
		if v, err := New(kind, Credentials{}); !errors.Is(err, ErrEmptyToken) || v != nil {
			t.Errorf("%s: got %v, %v, want ErrEmptyToken", kind, v, err)
		}
	}
}

// T1: fails when a type that asks for no proof is not known to take the path for it. Its Receiver on the path of another namespace's would
// get the webhooks of that one.
func TestT1ATypeThatAsksForNoProofTakesThePathForIt(t *testing.T) {
	for _, kind := range Types() {
		v, err := New(kind, Credentials{
			Token: []byte("czNjcmV0"), Issuers: newIssuers(t, http.DefaultTransport, ""),
			Values: map[string][]byte{"email": []byte("a"), "audience": []byte("b")},
			OIDC:   []OIDCProvider{{IssuerURL: "https://issuer.test", Validations: []OIDCValidation{{Expression: "true", Message: "m"}}}},
		})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if accepted := verify(v, header(), "{}") == nil; accepted != ProvesByPath(kind) {
			t.Errorf("%s: a request without a proof is accepted: %v; ProvesByPath: %v", kind, accepted, ProvesByPath(kind))
		}
	}
}

func TestAnUnsupportedTypeIsNamedWithThoseThatAreSupported(t *testing.T) {
	_, err := New("carrier-pigeon", Credentials{Token: []byte(token)})
	var unsupported *UnsupportedTypeError
	if !errors.As(err, &unsupported) || unsupported.Type != "carrier-pigeon" {
		t.Fatalf("got %v, want an UnsupportedTypeError", err)
	}
	for _, kind := range Types() {
		if !strings.Contains(err.Error(), kind) {
			t.Errorf("%q does not name %s", err, kind)
		}
	}
	if !slices.IsSorted(Types()) {
		t.Errorf("Types are not in order: %v", Types())
	}
}

func TestAVerifierKeepsItsOwnCopyOfTheToken(t *testing.T) {
	key := []byte(token)
	v, err := New("generic-hmac", Credentials{Token: key})
	if err != nil {
		t.Fatal(err)
	}
	clear(key)
	if err := verify(v, http.Header{"X-Signature": {sign(token, "x")}}, "x"); err != nil {
		t.Errorf("after the caller cleared its token: %v", err)
	}
}

// fuzzVerifier checks that a type accepts nothing without a proof, that every error is a Refusal, and that the document
// is no longer than the body. proofs are the headers that may carry the proof, and seeds are proofs for an empty body.
// proven reports whether one of the header's values proves it.
func fuzzVerifier(f *testing.F, kind string, proofs, seeds []string, proven func(h http.Header, body string) bool) {
	seeds = append(seeds, "", "=", "sha1=", "sha256="+strings.Repeat("0", 64), "sha512="+strings.Repeat("zz", 64), "\xff")
	for i, seed := range seeds {
		f.Add(uint8(i), seed, "", "", "application/json", "push")
		f.Add(uint8(i), "", seed, "{}", "application/x-www-form-urlencoded", "PING")
		f.Add(uint8(i), seed, seed, "payload=%7B%7D&payload=2", "application/json; charset=\"", "diagnostics:ping")
		f.Add(uint8(i), seed, "", `{"action":1,"repositoryName":"a"}`, ";", "\x00")
	}
	v := verifierOf(f, kind, token)
	f.Fuzz(func(t *testing.T, which uint8, proof, second, body, contentType, event string) {
		h := http.Header{"Content-Type": {contentType}}
		h.Set(proofs[int(which)%len(proofs)], proof)
		h.Set(proofs[int(which+1)%len(proofs)], second)
		for _, name := range []string{"X-GitHub-Event", "X-Gitea-Event", "X-Gitlab-Event", "X-Event-Key"} {
			h.Set(name, event)
		}
		err := verify(v, h, body)
		if _, ok := errors.AsType[answer.Refusal](err); err != nil && !ok {
			t.Fatalf("%v is no Refusal", err)
		}
		if err == nil && !proven(h, body) {
			t.Fatalf("%v was accepted for %q", h, body)
		}
		content, err := v.Content(t.Context(), h, []byte(body))
		if _, ok := errors.AsType[answer.Refusal](err); err != nil && !ok {
			t.Fatalf("%v is no Refusal", err)
		}
		if len(content.Document) > len(body) {
			t.Fatalf("a document of %d bytes from a body of %d", len(content.Document), len(body))
		}
	})
}

// signedBy is fuzzVerifier's own check of HMACs: any of the named headers equals one of these signatures.
func signedBy(names []string, signatures func(body string) []string) func(http.Header, string) bool {
	return func(h http.Header, body string) bool {
		for _, name := range names {
			for _, s := range signatures(body) {
				if strings.EqualFold(h.Get(name), s) {
					return true
				}
			}
		}
		return false
	}
}

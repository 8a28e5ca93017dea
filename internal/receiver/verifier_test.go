package receiver

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func signWith(name string, h func() hash.Hash, key, body string) string {
	mac := hmac.New(h, []byte(key))
	mac.Write([]byte(body))
	return name + "=" + hex.EncodeToString(mac.Sum(nil))
}

// verify runs one request through a verifier as the door does.
func verify(v Verifier, h http.Header, body string) error {
	check, err := v.Begin(context.Background(), h)
	if err != nil {
		return err
	}
	_, _ = check.Write([]byte(body))
	var kept []byte
	if _, ok := v.(Parser); ok {
		kept = []byte(body)
	}
	_, err = check.Finish(kept)
	return err
}

// Fails when the formula gets a separator, another order of its parts, or trims the token: the value was computed with
// sha256sum.
func TestPathIsFluxsFormula(t *testing.T) {
	const want = "/hook/6f4e18ba64e5c088f93e1bc606263b8ce977cf8fa31dd08e6e7721bf5926718c"
	if got := Path("s3cret", "webhook", "team-a"); got != want {
		t.Errorf("Path = %s, want %s", got, want)
	}
	if !isHookPath(want) || isHookPath(want+"0") || isHookPath(strings.ToUpper(want)) || isHookPath("/hook/") {
		t.Error("isHookPath does not tell hook paths from others")
	}
}

// Fails when a refusal is taken for an acceptance: without the comparison in Finish, with a comparison of a prefix, with an
// algorithm that is not in the table, or with SHA-256's digest length for all.
func TestVerifiersAcceptOnlyWhoKnowsTheToken(t *testing.T) {
	const body = `{"ref":"refs/heads/main"}`
	header := func(kv ...string) http.Header {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	good := sign(token, body)
	for name, tc := range map[string]struct {
		kind   string
		header http.Header
		want   error
	}{
		"generic takes whoever knows the path":       {"generic", http.Header{}, nil},
		"generic-hmac takes sha256":                  {"generic-hmac", header("X-Signature", good), nil},
		"generic-hmac takes sha1":                    {"generic-hmac", header("X-Signature", signWith("sha1", sha1.New, token, body)), nil},
		"generic-hmac takes sha512":                  {"generic-hmac", header("X-Signature", signWith("sha512", sha512.New, token, body)), nil},
		"generic-hmac takes upper-case digits":       {"generic-hmac", header("X-Signature", "sha256="+strings.ToUpper(good[7:])), nil},
		"generic-hmac refuses no signature":          {"generic-hmac", header(), refusedNoSignature},
		"generic-hmac refuses another token's":       {"generic-hmac", header("X-Signature", sign("other", body)), refusedMismatch},
		"generic-hmac refuses the empty token's":     {"generic-hmac", header("X-Signature", sign("", body)), refusedMismatch},
		"generic-hmac refuses another body's":        {"generic-hmac", header("X-Signature", sign(token, body+" ")), refusedMismatch},
		"generic-hmac refuses md5":                   {"generic-hmac", header("X-Signature", "md5="+strings.Repeat("0", 32)), refusedAlgorithm},
		"generic-hmac refuses a bare digest":         {"generic-hmac", header("X-Signature", good[7:]), refusedMalformed},
		"generic-hmac refuses a prefix":              {"generic-hmac", header("X-Signature", good[:len(good)-2]), refusedMalformed},
		"generic-hmac refuses an empty digest":       {"generic-hmac", header("X-Signature", "sha256="), refusedMalformed},
		"generic-hmac refuses what is not hex":       {"generic-hmac", header("X-Signature", "sha256="+strings.Repeat("z", 64)), refusedMalformed},
		"github takes sha256":                        {"github", header("X-Hub-Signature-256", good), nil},
		"github takes the older header":              {"github", header("X-Hub-Signature", signWith("sha1", sha1.New, token, body)), nil},
		"github takes a form":                        {"github", header("X-Hub-Signature-256", good, "Content-Type", "application/x-www-form-urlencoded"), nil},
		"github takes a content type with parameter": {"github", header("X-Hub-Signature-256", good, "Content-Type", "application/json; charset=utf-8"), nil},
		"github refuses another content type":        {"github", header("X-Hub-Signature-256", good, "Content-Type", "text/plain"), refusedContentType},
		"github refuses no content type":             {"github", http.Header{"X-Hub-Signature-256": {good}}, refusedContentType},
		"github refuses no signature":                {"github", header(), refusedNoSignature},
		"github does not fall back from a bad signature": {"github", header(
			"X-Hub-Signature-256", sign("other", body), "X-Hub-Signature", signWith("sha1", sha1.New, token, body)), refusedMismatch},
		"gitlab takes the token":           {"gitlab", header("X-Gitlab-Token", token), nil},
		"gitlab refuses no token":          {"gitlab", header(), refusedNoToken},
		"gitlab refuses an empty token":    {"gitlab", header("X-Gitlab-Token", ""), refusedNoToken},
		"gitlab refuses another token":     {"gitlab", header("X-Gitlab-Token", token+"x"), refusedToken},
		"gitlab refuses the token's start": {"gitlab", header("X-Gitlab-Token", token[:3]), refusedToken},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := NewVerifier(tc.kind, Credentials{Token: []byte(token)})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // a pooled check must be as good as a new one
				if got := verify(v, tc.header, body); !errors.Is(got, tc.want) {
					t.Fatalf("got %v, want %v", got, tc.want)
				}
			}
			if v.Type() != tc.kind {
				t.Errorf("Type = %s, want %s", v.Type(), tc.kind)
			}
		})
	}
}

// Fails when NewVerifier does not look at the token: an empty key would accept everybody's empty signature.
func TestAnEmptyTokenIsRefusedByEveryType(t *testing.T) {
	for _, kind := range Types() {
		if v, err := NewVerifier(kind, Credentials{}); !errors.Is(err, ErrEmptyToken) || v != nil {
			t.Errorf("%s: got %v, %v, want ErrEmptyToken", kind, v, err)
		}
	}
}

func TestAnUnsupportedTypeIsNamedWithThoseThatAreSupported(t *testing.T) {
	_, err := NewVerifier("bitbucket", Credentials{Token: []byte(token)})
	var unsupported *UnsupportedTypeError
	if !errors.As(err, &unsupported) || unsupported.Type != "bitbucket" {
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
	v, err := NewVerifier("generic-hmac", Credentials{Token: key})
	if err != nil {
		t.Fatal(err)
	}
	clear(key)
	if err := verify(v, http.Header{"X-Signature": {sign(token, "x")}}, "x"); err != nil {
		t.Errorf("after the caller cleared its token: %v", err)
	}
}

func FuzzGenericHMAC(f *testing.F) { fuzzVerifier(f, "generic-hmac", "X-Signature") }
func FuzzGitHub(f *testing.F)      { fuzzVerifier(f, "github", "X-Hub-Signature-256") }
func FuzzGitLab(f *testing.F)      { fuzzVerifier(f, "gitlab", "X-Gitlab-Token") }
func FuzzGeneric(f *testing.F)     { fuzzVerifier(f, "generic", "X-Anything") }

// fuzzVerifier holds that nothing but a proof is accepted, and that no header makes a verifier panic or fail with anything
// but a Refusal.
func fuzzVerifier(f *testing.F, kind, name string) {
	f.Add(sign(token, "{}"), "{}", "application/json", "push")
	f.Add("sha1=", "", "", "")
	f.Add("sha256="+strings.Repeat("0", 64), "x", "application/json; charset=\"", "PING")
	f.Add("=", "\x00", ";", "\xff")
	f.Add("sha512="+strings.Repeat("zz", 64), "body", "application/x-www-form-urlencoded", "Push Hook")
	f.Add(token, "", "application/json", "ping")
	v, err := NewVerifier(kind, Credentials{Token: []byte(token)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, proof, body, contentType, name2 string) {
		h := http.Header{name: {proof}, "Content-Type": {contentType}, "X-Github-Event": {name2}, "X-Gitlab-Event": {name2}}
		err := verify(v, h, body)
		_ = v.Event(h)
		var refusal Refusal
		if err != nil && !errors.As(err, &refusal) {
			t.Fatalf("%v is no Refusal", err)
		}
		if err == nil && kind != "generic" && !proves(proof, body) {
			t.Fatalf("%q was accepted for %q", proof, body)
		}
	})
}

func proves(proof, body string) bool {
	return proof == token || strings.EqualFold(proof, sign(token, body)) ||
		strings.EqualFold(proof, signWith("sha1", sha1.New, token, body)) ||
		strings.EqualFold(proof, signWith("sha512", sha512.New, token, body))
}

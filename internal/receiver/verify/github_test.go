package verify

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	gogithub "github.com/google/go-github/v81/github"
)

// Fails when the headers change places, when a bad signature falls back to another header, or when the content type is
// not checked.
func TestGitHubRequiresAValidSignature(t *testing.T) {
	good, older := sign(token, attemptBody), signWith("sha1", sha1.New, token, attemptBody)
	gitea := hexMAC(sha256.New, token, attemptBody)
	try(t, "github", map[string]attempt{
		"sha256":                            {header("X-Hub-Signature-256", good), nil},
		"the older header":                  {header("X-Hub-Signature", older), nil},
		"a form":                            {header("X-Hub-Signature-256", good, "Content-Type", formType), nil},
		"a content type with a parameter":   {header("X-Hub-Signature-256", good, "Content-Type", "application/json; charset=utf-8"), nil},
		"another content type":              {header("X-Hub-Signature-256", good, "Content-Type", "text/plain"), refusedContentType},
		"JSON of another kind":              {header("X-Hub-Signature-256", good, "Content-Type", "application/scim+json"), refusedContentType},
		"no content type":                   {http.Header{"X-Hub-Signature-256": {good}}, refusedContentType},
		"no signature":                      {header(), refusedNoSignature},
		"a bad one beside a good older one": {header("X-Hub-Signature-256", sign("other", attemptBody), "X-Hub-Signature", older), refusedMismatch},
		"an empty one beside a good older":  {header("X-Hub-Signature-256", "", "X-Hub-Signature", older), nil},
		"Gitea's header alone":              {header("X-Gitea-Signature", gitea), nil},
		"Forgejo's header alone":            {header("X-Forgejo-Signature", gitea), nil},
		"Gogs's header alone":               {header("X-Gogs-Signature", gitea), nil},
		"a bad one beside Gitea's good one": {header("X-Hub-Signature", sign("other", attemptBody), "X-Gitea-Signature", gitea), refusedMismatch},
		"a bad one of Gitea":                {header("X-Gitea-Signature", hexMAC(sha256.New, "other", attemptBody)), refusedMismatch},
	})
}

func TestGitHubReadsEventAndDeliveryOfGiteaToo(t *testing.T) {
	reads(t, "github", map[string]struct {
		header http.Header
		want   Event
	}{
		"GitHub's": {
			header("X-GitHub-Event", "push", "X-GitHub-Delivery", "1", "X-Gitea-Event", "create", "X-Gitea-Delivery", "2"),
			Event{Name: "push", Selects: true, Delivery: "1"},
		},
		"a ping":   {header("X-GitHub-Event", "Ping"), Event{Name: "Ping", Selects: true, Ping: true}},
		"Gitea's":  {header("X-Gitea-Event", "push", "X-Gitea-Delivery", "2"), Event{Name: "push", Selects: true, Delivery: "2"}},
		"no event": {header(), Event{Selects: true}},
	})
}

// goGitHub returns the result of go-github, GitHub's own library, for a request. Flux verifies with it.
func goGitHub(t *testing.T, h http.Header, body string) ([]byte, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/hook/x", strings.NewReader(body))
	r.Header = h
	return gogithub.ValidatePayload(r, []byte(token))
}

// agreesWithGoGitHub checks that a type accepts exactly the requests that go-github accepts, and that filters read the
// same payload. One difference is intended: go-github refuses a form that cannot be read, while here the body of an
// authentic request is read only if a filter asks for it.
func agreesWithGoGitHub(t *testing.T, v Verifier, h http.Header, body string) {
	t.Helper()
	payload, want := goGitHub(t, h, body)
	got := verify(v, h, body)
	if _, err := url.ParseQuery(body); err != nil && got == nil && want != nil {
		return
	}
	if (got == nil) != (want == nil) {
		t.Fatalf("%v, body %q: %v, and go-github: %v", h, body, got, want)
	}
	if got != nil {
		return
	}
	if c, err := v.Content(t.Context(), h, []byte(body)); err != nil || !bytes.Equal(c.Document, payload) {
		t.Fatalf("%v, body %q: filters read %q, %v, and go-github %q", h, body, c.Document, err, payload)
	}
}

// Fails when a content type, an algorithm, a spelling or a place of the signature is read other than by Flux.
func TestHubSignaturesAreCheckedAsGoGitHubChecksThem(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "bitbucket"} {
		v := verifierOf(t, kind, token)
		for _, body := range []string{"", attemptBody, "payload=%7B%22a%22%3A1%7D", "a=b&payload=%7B%7D&payload=x", "payload", "%70ayload=1"} {
			signatures := append(hubSignatures(body), strings.ToUpper(sign(token, body)), "sha256="+strings.ToUpper(sign(token, body)[7:]),
				sign("other", body), sign("", body), sign(token, body+" "), "sha256=", "sha256", "=", "", "md5="+strings.Repeat("0", 32),
				" "+sign(token, body), sign(token, body)+"00")
			for _, contentType := range []string{
				"application/json", "Application/JSON", "application/json;charset=utf-8", "application/json;", "application/json; charset", formType,
				formType + "; charset=utf-8", "text/plain", "", "application/json, text/plain", "application/vnd.api+json",
			} {
				for _, first := range signatures {
					for _, second := range signatures {
						h := header("Content-Type", contentType, "X-Event-Key", "repo:push")
						h.Set("X-Hub-Signature-256", first)
						h.Set("X-Hub-Signature", second)
						agreesWithGoGitHub(t, v, h, body)
					}
				}
			}
		}
	}
}

// FuzzHubSignatures compares with go-github, seeded with requests that it accepts.
func FuzzHubSignatures(f *testing.F) {
	for _, body := range []string{"", "{}", "payload=%7B%7D", "payload=%zz", "a;b"} {
		for _, s := range hubSignatures(body) {
			f.Add(s, "", "application/json", body)
			f.Add("", s, formType, body)
		}
	}
	v := verifierOf(f, "github", token)
	f.Fuzz(func(t *testing.T, first, second, contentType, body string) {
		h := header("Content-Type", contentType)
		h.Set("X-Hub-Signature-256", first)
		h.Set("X-Hub-Signature", second)
		agreesWithGoGitHub(t, v, h, body)
	})
}

func FuzzGitHub(f *testing.F) {
	names := append([]string{"X-Hub-Signature-256", "X-Hub-Signature"}, giteaSignatures...)
	seeds := append(hubSignatures(""), hexMAC(sha256.New, token, ""))
	fuzzVerifier(f, "github", names, seeds, signedBy(names, func(body string) []string {
		return append(hubSignatures(body), hexMAC(sha256.New, token, body))
	}))
}

package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"notifier/internal/alerts/provider/providertest"
)

const (
	fakeToken = "ghp-s3cret"
	commit    = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"
)

// fakeGitHub answers as GitHub's API for the repository team-s3cret/apps and pull request 7. It refuses the requests that GitHub
// refuses: with other fields, types or lengths, with another login, or to unknown paths.
type fakeGitHub struct {
	mu       sync.Mutex
	statuses []status
	comments []map[string]any
	payloads []map[string]any
	tokens   map[string]bool // of the App's installation, true while they are valid
	minted   int
	life     time.Duration
	key      *rsa.PrivateKey
	prefix   string
	log      []string
}

func newFake(t *testing.T) *fakeGitHub {
	t.Helper()
	return &fakeGitHub{tokens: map[string]bool{}, life: time.Hour, key: fakeKey(t), prefix: "/api/v3/"}
}

// keyOnce returns the App's key, the same for all tests: its generation takes long.
var keyOnce = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func fakeKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := keyOnce()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func fakePEM(t *testing.T) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(fakeKey(t))}))
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

func (f *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), f.prefix)
	route := r.Method + " " + path
	f.log = append(f.log, route)
	login := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, "Not Found")
	case r.Header.Get("Accept") != "application/vnd.github+json" || r.Header.Get("X-GitHub-Api-Version") != "2022-11-28":
		refuse(w, http.StatusBadRequest, "Unsupported version")
	case strings.HasPrefix(path, "app") || strings.HasSuffix(path, "/installation"):
		f.serveApp(w, route, login)
	case login != fakeToken && !f.tokens[login]:
		refuse(w, http.StatusUnauthorized, "Bad credentials")
	case route == "GET user" && f.tokens[login]:
		refuse(w, http.StatusForbidden, "Resource not accessible by integration")
	case route == "GET user":
		answer(w, http.StatusOK, map[string]any{"login": "flux-user", "id": 1})
	case strings.HasPrefix(path, "repos/team-s3cret/apps/"):
		f.serveRepository(w, r, r.Method+" "+strings.TrimPrefix(path, "repos/team-s3cret/apps/"))
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}

// serveApp answers requests of the App 123 itself. It is installed as 456 for the user octo and as 789 for the organization acme.
func (f *fakeGitHub) serveApp(w http.ResponseWriter, route, login string) {
	if err := f.verify(login); err != nil {
		refuse(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		return
	}
	switch route {
	case "GET app":
		answer(w, http.StatusOK, map[string]any{"id": 123, "slug": "flux-app"})
	case "GET users/octo/installation":
		answer(w, http.StatusOK, map[string]any{"id": 456})
	case "GET orgs/acme/installation":
		answer(w, http.StatusOK, map[string]any{"id": 789})
	case "POST app/installations/456/access_tokens", "POST app/installations/789/access_tokens":
		f.minted++
		token := fmt.Sprintf("ghs-s3cret-%d", f.minted)
		f.tokens[token] = true
		answer(w, http.StatusCreated, map[string]any{"token": token, "expires_at": time.Now().Add(f.life).UTC().Format(time.RFC3339)})
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}

// verify checks the App's JWT as GitHub does: RS256, issued in the past, at most ten minutes long.
func (f *fakeGitHub) verify(token string) error {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return err
	}
	var claims jwt.Claims
	if err := parsed.Claims(&f.key.PublicKey, &claims); err != nil {
		return err
	}
	now := time.Now()
	if claims.Issuer != "123" || claims.IssuedAt.Time().After(now) || claims.Expiry.Time().Before(now) ||
		claims.Expiry.Time().After(now.Add(10*time.Minute)) {
		return fmt.Errorf("claims are wrong")
	}
	return nil
}

func (f *fakeGitHub) serveRepository(w http.ResponseWriter, r *http.Request, route string) {
	switch {
	case route == "GET commits/"+commit+"/statuses" && r.URL.RawQuery == "per_page=100":
		newest := make([]status, 0, len(f.statuses))
		for _, s := range slices.Backward(f.statuses) {
			newest = append(newest, s)
		}
		answer(w, http.StatusOK, newest[:min(len(newest), 100)])
	case route == "GET commits/"+commit+"/status":
		f.listContexts(w, r)
	case strings.HasPrefix(route, "POST statuses/"):
		f.setStatus(w, r, strings.TrimPrefix(route, "POST statuses/"))
	case route == "GET issues/7/comments":
		f.listComments(w, r)
	case route == "POST issues/7/comments", strings.HasPrefix(route, "PATCH issues/comments/"):
		f.writeComment(w, r, strings.TrimPrefix(route, "PATCH issues/comments/"))
	case route == "POST dispatches":
		f.dispatched(w, r)
	default:
		refuse(w, http.StatusNotFound, "Not Found")
	}
}

// listContexts answers with a page of the last statuses of the commit's contexts.
func (f *fakeGitHub) listContexts(w http.ResponseWriter, r *http.Request) {
	var last []status
	for _, s := range slices.Backward(f.statuses) {
		if !slices.ContainsFunc(last, func(known status) bool { return known.Context == s.Context }) {
			last = append(last, s)
		}
	}
	if from, to, ok := pageOf(w, r, len(last)); ok {
		answer(w, http.StatusOK, map[string]any{"state": "success", "sha": commit, "total_count": len(last), "statuses": last[from:to]})
	}
}

// pageOf returns the bounds of the requested page of a list. It refuses a request without them, and reports whether it did not.
func pageOf(w http.ResponseWriter, r *http.Request, length int) (from, to int, ok bool) {
	page, size := 0, 0
	if _, err := fmt.Sscan(r.URL.Query().Get("page")+" "+r.URL.Query().Get("per_page"), &page, &size); err != nil || page < 1 || size > 100 {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
		return 0, 0, false
	}
	from = min((page-1)*size, length)
	return from, min(from+size, length), true
}

func (f *fakeGitHub) setStatus(w http.ResponseWriter, r *http.Request, sha string) {
	var s struct{ State, Context, Description string }
	err := providertest.DecodeRequest(r, &s)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "Problems parsing JSON")
	case sha != commit:
		refuse(w, http.StatusUnprocessableEntity, "No commit found for SHA: "+sha)
	case s.State != "success" && s.State != "failure", s.Context == "", utf8.RuneCountInString(s.Context) > 255,
		utf8.RuneCountInString(s.Description) > 140:
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
	default:
		f.statuses = append(f.statuses, status{State: s.State, Context: s.Context, Description: s.Description, CreatedAt: time.Now().UTC()})
		answer(w, http.StatusCreated, f.statuses[len(f.statuses)-1])
	}
}

func (f *fakeGitHub) listComments(w http.ResponseWriter, r *http.Request) {
	if from, to, ok := pageOf(w, r, len(f.comments)); ok {
		answer(w, http.StatusOK, f.comments[from:to])
	}
}

func (f *fakeGitHub) writeComment(w http.ResponseWriter, r *http.Request, id string) {
	var c struct{ Body string }
	if err := providertest.DecodeRequest(r, &c); err != nil || c.Body == "" || utf8.RuneCountInString(c.Body) > 65_536 {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	author := "flux-user"
	if r.Header.Get("Authorization") != "Bearer "+fakeToken {
		author = "flux-app[bot]"
	}
	if r.Method == http.MethodPost {
		f.comments = append(f.comments, map[string]any{
			"id": len(f.comments) + 1, "body": c.Body, "user": map[string]any{"login": author}, "updated_at": time.Now(),
		})
		answer(w, http.StatusCreated, f.comments[len(f.comments)-1])
		return
	}
	for _, known := range f.comments {
		if fmt.Sprint(known["id"]) == id && known["user"].(map[string]any)["login"] == author {
			known["body"] = c.Body
			answer(w, http.StatusOK, known)
			return
		}
	}
	refuse(w, http.StatusNotFound, "Not Found")
}

func (f *fakeGitHub) dispatched(w http.ResponseWriter, r *http.Request) {
	var d struct {
		EventType     string         `json:"event_type"`
		ClientPayload map[string]any `json:"client_payload"`
	}
	err := providertest.DecodeRequest(r, &d)
	if err != nil || d.EventType == "" || utf8.RuneCountInString(d.EventType) > 100 || len(d.ClientPayload) > 10 || r.ContentLength > 65_535 {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	f.payloads = append(f.payloads, d.ClientPayload)
	w.WriteHeader(http.StatusNoContent)
}

package apply

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// query is one question as the API server saw it.
type query struct {
	at                   time.Time
	user, verb, resource string
	namespace, name      string
}

// fakeRBAC is an API server that answers questions about permissions from a list of "account resource name" and "account resource *".
// The process itself has every permission but plain impersonation.
type fakeRBAC struct {
	mu       sync.Mutex
	may      map[string]bool
	accounts map[string]bool
	// old reports that the server does not know constrained impersonation.
	old, away bool
	// mute reports that the process may not ask as accounts, though it may write as them.
	mute    bool
	asked   []query
	existed int
}

func newRBAC() *fakeRBAC {
	return &fakeRBAC{may: map[string]bool{}, accounts: map[string]bool{"weak": true, "default": true}}
}

func (f *fakeRBAC) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// questions returns the questions about accounts since a time.
func (f *fakeRBAC) questions(since time.Time) (all []query) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if a.user != "" && a.resource != "serviceaccounts" && !a.at.Before(since) {
			all = append(all, a)
		}
	}
	return all
}

func (f *fakeRBAC) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := func(code int, body any) (*http.Response, error) {
		text, err := json.Marshal(body)
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(text))), Request: r,
		}, err
	}
	status := func(code int, message string) (*http.Response, error) {
		return answer(code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
	}
	if f.away {
		return nil, fmt.Errorf("no connection")
	}
	if r.Method == http.MethodGet {
		f.existed++
		if !f.accounts[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]] {
			return status(http.StatusNotFound, "not found")
		}
		return answer(http.StatusOK, map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"})
	}
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	what, user := review.Spec.ResourceAttributes, r.Header.Get("Impersonate-User")
	f.asked = append(f.asked, query{time.Now(), user, what.Verb, what.Resource, what.Namespace, what.Name})
	switch {
	case user == "":
		review.Status.Allowed = (what.Verb != verbImpersonate || f.may["plain"]) && (what.Verb != verbReviewSo || !f.mute)
	case f.mute:
		return status(http.StatusForbidden, `User "notifier" cannot impersonate-on:serviceaccount:create resource "selfsubjectaccessreviews"`)
	case f.old && !f.may["plain"]:
		return status(http.StatusForbidden, `serviceaccounts "x" is forbidden: User "notifier" cannot impersonate resource "serviceaccounts"`)
	default:
		account := user[strings.LastIndex(user, ":")+1:]
		review.Status.Allowed = f.may[account+" "+what.Resource+" *"] || what.Name != "" && f.may[account+" "+what.Resource+" "+what.Name]
	}
	return answer(http.StatusCreated, review)
}

package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"notifier/internal/alerts/provider"
	"notifier/internal/builtin"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// accounts are a cluster's service accounts. A token names its account and audience, and has a number.
type accounts struct {
	mu     sync.Mutex
	all    map[kube.Key]*corev1.ServiceAccount
	issued int
	refuse error
}

func (a *accounts) Account(_ context.Context, key kube.Key) (*corev1.ServiceAccount, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.all[key]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, key.Name)
	}
	return found, nil
}

func (a *accounts) Token(_ context.Context, key kube.Key, audience string) (string, time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.issued++
	return fmt.Sprintf("%s for %s, %d", key, audience, a.issued), time.Now().Add(time.Hour), a.refuse
}

func account(namespace, name, uid string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), Annotations: map[string]string{"of": namespace},
	}}
}

func newAccounts(found ...*corev1.ServiceAccount) *accounts {
	a := &accounts{all: map[kube.Key]*corev1.ServiceAccount{}}
	for _, s := range found {
		a.all[kube.Key{Namespace: s.Namespace, Name: s.Name}] = s
	}
	return a
}

// identityOf returns the Config of a Provider that names the account.
func identityOf(t *testing.T, a *accounts, size int, namespace, name string) (provider.Config, *Accounts) {
	t.Helper()
	i := New(a, size, time.Hour)
	var cfg provider.Config
	i.Give(&cfg, kube.Key{Namespace: namespace, Name: name})
	return cfg, i
}

// Fails when a Provider gets a token or the annotations of another namespace's account.
func TestAProviderHasTheIdentityOfItsOwnNamespacesAccount(t *testing.T) {
	a := newAccounts(account("team-a", "events", "1"), account("team-b", "events", "2"), account("team-b", "only", "3"))
	cfg, _ := identityOf(t, a, 10, "team-a", "events")
	if got, err := cfg.Identity(t.Context(), "aud"); err != nil || got != "team-a/events for aud, 1" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := cfg.Annotations(t.Context()); err != nil || got["of"] != "team-a" {
		t.Errorf("got %v, %v", got, err)
	}
	cfg, _ = identityOf(t, a, 10, "team-a", "only")
	if got, err := cfg.Identity(t.Context(), "aud"); err == nil || !strings.Contains(err.Error(), `no service account "only"`) {
		t.Errorf("got %q, %v", got, err)
	}
}

// Fails when a token is kept beyond four fifths of its life or beyond its age, for another audience, or for a new account of the same
// name.
func TestATokenIsKeptForItsAccountAndAudience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccounts(account("team-a", "events", "1"))
		cfg, i := identityOf(t, a, 10, "team-a", "events")
		want := func(audience string, issued int) {
			t.Helper()
			if _, err := cfg.Identity(t.Context(), audience); err != nil || a.issued != issued {
				t.Errorf("%v, %d tokens were issued, want %d", err, a.issued, issued)
			}
		}
		want("x", 1)
		want("x", 1)
		want("y", 2)
		a.all[kube.Key{Namespace: "team-a", Name: "events"}] = account("team-a", "events", "2")
		want("x", 3)
		<-time.After(47 * time.Minute)
		want("x", 3)
		<-time.After(2 * time.Minute)
		want("x", 4)
		i.maxAge = time.Minute
		<-time.After(49 * time.Minute)
		want("x", 5)
		<-time.After(2 * time.Minute)
		want("x", 6)
	})
}

// Fails when the number of kept tokens is unbounded, or when size 0 keeps some.
func TestTheTokensThatAreKeptAreBounded(t *testing.T) {
	a := newAccounts(account("team-a", "events", "1"))
	cfg, i := identityOf(t, a, 5, "team-a", "events")
	for n := range 50 {
		if _, err := cfg.Identity(t.Context(), fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := i.tokens.n; n != 5 {
		t.Errorf("%d tokens are kept", n)
	}
	a = newAccounts(account("team-a", "events", "1"))
	cfg, _ = identityOf(t, a, 0, "team-a", "events")
	for range 2 {
		if _, err := cfg.Identity(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if a.issued != 2 {
		t.Errorf("%d tokens were issued", a.issued)
	}
}

// T6: a tenant makes any number of accounts, and Providers for them. Fails when their tokens push those of other namespaces out, each of whose
// sends then makes one more request, or when the bound is for each namespace.
func TestT6TheTokensOfANamespacePushOutNoOthers(t *testing.T) {
	a := newAccounts()
	i := New(a, 10, time.Hour)
	get := func(namespace, name string) {
		t.Helper()
		key := kube.Key{Namespace: namespace, Name: name}
		a.all[key] = account(namespace, name, name)
		if _, err := i.token(t.Context(), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	get("team-a", "first")
	for n := range 50 {
		get("many", fmt.Sprint(n))
	}
	get("team-b", "first")
	get("team-b", "second")
	for n := range 50 {
		get("many", fmt.Sprint(n))
	}
	before := a.issued
	get("team-a", "first")
	get("team-b", "first")
	get("team-b", "second")
	get("many", "49")
	if a.issued != before {
		t.Errorf("%d tokens that were used a moment ago are issued again", a.issued-before)
	}
	if n := i.tokens.n; n != 10 {
		t.Errorf("%d tokens are kept", n)
	}
	for n := range 20 {
		get(fmt.Sprint("team-", n), "first")
	}
	if n := i.tokens.n; n != 10 || i.tokens.namespaces.Len() > 10 {
		t.Errorf("%d tokens of %d namespaces are kept", n, i.tokens.namespaces.Len())
	}
}

// Fails when a token for the API server itself is requested. Fails when its refusal is a permanent error, or reveals the server's text.
func TestARefusedTokenRequestIsReportedAndRetried(t *testing.T) {
	a := newAccounts(account("team-a", "events", "1"))
	cfg, _ := identityOf(t, a, 10, "team-a", "events")
	if got, err := cfg.Identity(t.Context(), ""); err == nil || got != "" || a.issued != 0 {
		t.Errorf("without an audience: %q, %v", got, err)
	}
	for says, refuse := range map[string]error{
		"config/workload-identity": apierrors.NewForbidden(schema.GroupResource{}, "events", errors.New("s3cret")),
		"gives no token":           apierrors.NewInternalError(errors.New("s3cret")),
		"no answer in time":        fmt.Errorf("s3cret: %w", context.DeadlineExceeded),
	} {
		a.refuse = refuse
		_, err := cfg.Identity(t.Context(), "x")
		if e := event.AsError(err); err == nil || e.Class != event.Retry || !strings.Contains(e.Error(), says) || strings.Contains(e.Error(), "s3cret") {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// Fails when a request for a token has other content than one audience and its life.
func TestATokenIsAskedForWithOneAudienceAndAnHour(t *testing.T) {
	var asked authenticationv1.TokenRequest
	ends := time.Unix(1_900_000_000, 0)
	served := http.NewServeMux()
	served.HandleFunc("GET /api/v1/namespaces/team-a/serviceaccounts/events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(account("team-a", "events", "1"))
	})
	served.HandleFunc("POST /api/v1/namespaces/team-a/serviceaccounts/events/token", func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: "t", ExpirationTimestamp: metav1.NewTime(ends),
		}})
	})
	server := httptest.NewServer(served)
	t.Cleanup(server.Close)
	core, err := builtin.NewClient(&rest.Config{Host: server.URL, QPS: -1}, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	source, key := NewSource(core), kube.Key{Namespace: "team-a", Name: "events"}
	if got, until, err := source.Token(t.Context(), key, "x"); err != nil || got != "t" || !until.Equal(ends) {
		t.Fatalf("got %q until %v, %v", got, until, err)
	}
	if s := asked.Spec; len(s.Audiences) != 1 || s.Audiences[0] != "x" || *s.ExpirationSeconds != 3600 || s.BoundObjectRef != nil {
		t.Errorf("asked for %+v", s)
	}
	if got, err := source.Account(t.Context(), key); err != nil || got.UID != "1" {
		t.Errorf("got %v, %v", got, err)
	}
}

// slowAccounts answers each request only when it is told to.
type slowAccounts struct {
	*accounts
	asked  chan string // the namespaces of requests
	answer chan struct{}
}

func (a *slowAccounts) Account(ctx context.Context, key kube.Key) (*corev1.ServiceAccount, error) {
	a.asked <- key.Namespace
	<-a.answer
	return a.accounts.Account(ctx, key)
}

// T6: fails when the sends of one namespace have more than accountReads requests before those of another.
func TestT6TheIdentitiesOfANamespaceHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slowAccounts{newAccounts(account("many", "a", "1"), account("other", "a", "2")), make(chan string, 100), make(chan struct{})}
		i := New(a, 0, time.Hour)
		var sends sync.WaitGroup
		send := func(namespace string) {
			sends.Go(func() {
				if _, err := i.token(t.Context(), kube.Key{Namespace: namespace, Name: "a"}, "aud"); err != nil {
					t.Error(err)
				}
			})
		}
		for range 50 {
			send("many")
		}
		synctest.Wait()
		send("other")
		synctest.Wait()
		var asked []string
		for range len(a.asked) {
			asked = append(asked, <-a.asked)
		}
		if want := []string{"many", "many", "other"}; !slices.Equal(asked, want) {
			t.Errorf("requests of %v, want %v", asked, want)
		}
		close(a.answer)
		sends.Wait()
	})
}

package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/fair"
	"notifier/internal/receiver/limit"
)

// Bounds on issuers' keys, and on the rate of fetches. The times of keys run from their fetch, fetchPause from the last attempt, successful
// or not. A fetch that fails or takes long may do so because of the namespace that it is for: then another namespace need not wait for
// fetchPause, which runs for each namespace by itself as well.
const (
	// keysFresh is the time after which keys are fetched again: when an issuer drops a key, its tokens are refused this much later.
	keysFresh = 5 * time.Minute
	// keysUsable bounds the use of keys while their issuer does not answer.
	keysUsable = time.Hour
	// fetchPause is the least time between two fetches from an issuer, for an unknown key as well as after a failure: forged tokens and an
	// unavailable issuer cost one fetch in that time.
	fetchPause = 10 * time.Second
	// foreignFetch bounds the wait of a token for fetches of other namespaces, which may be slow for those alone, and for that of its own if it
	// is signed with a key that is known and old: then it is accepted.
	foreignFetch = time.Second
	// fetchTime bounds one fetch, of the discovery document and the keys together.
	fetchTime = 5 * time.Second
	// maxFetched bounds each of the two answers in bytes.
	maxFetched = 256 << 10
)

// GoogleIssuer is the issuer of the tokens of Google Cloud's Pub/Sub.
const GoogleIssuer = "https://accounts.google.com"

// ErrIssuerUnavailable says that an issuer's keys are not known, which the sender cannot change.
var ErrIssuerUnavailable = errors.New("the issuer's keys are not available")

// ErrNone says that a type which verifies tokens was given no Issuers.
var ErrNone = errors.New("no issuers to ask for keys")

// Options are the options of New.
type Options struct {
	// Client returns the client that reaches the issuers for a namespace. The tenants choose the addresses, so it must not reach addresses
	// that are closed to them, and must bound the cost of what issuers send. Redirects are never followed. It is required.
	Client func(namespace string) *http.Client
	// Google replaces the issuer of type gcr, which is GoogleIssuer.
	Google string
}

// Issuers are the keys of OpenID Connect issuers, discovered and cached for all Receivers. One namespace's cached issuers, fetches and
// evictions are bounded by its share, and take nothing from another's. It is safe for concurrent use.
type Issuers struct {
	client func(namespace string) *http.Client
	google string

	// places and rates are of the fetches of each namespace.
	places *fair.Capacities[string]
	rates  *fair.Limiters[string]

	mu    sync.Mutex
	byURL map[string]*issuer
	uses  map[string]map[string]*use // by namespace and URL
	swept time.Time
}

// New returns an empty cache. It fetches nothing.
func New(o Options) (*Issuers, error) {
	if o.Client == nil {
		return nil, errors.New("issuers: no client")
	}
	o.Google = cmp.Or(o.Google, GoogleIssuer)
	s := &Issuers{
		client: o.Client, google: o.Google, byURL: map[string]*issuer{}, uses: map[string]map[string]*use{},
		places: fair.NewCapacities[string](nil, fetchesAtOnce, 0), rates: fair.NewLimiters[string](fetchRate, fetchBurst, maxRates),
	}
	s.byURL[o.Google] = &issuer{url: o.Google, users: 1} // never evicted
	return s, nil
}

// clientOf returns the client that fetches keys for a namespace.
func (s *Issuers) clientOf(namespace string) *http.Client {
	client := *s.client(namespace)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Transport = bounded{client.Transport}
	client.Jar = nil
	return &client
}

// Google returns the issuer of the tokens of type gcr.
func (s *Issuers) Google() string { return s.google }

// issuer is one issuer with its keys.
type issuer struct {
	url   string
	users int // namespaces, under the lock of Issuers

	mu   sync.Mutex
	keys []jose.JSONWebKey
	// fetched is the time of the keys' fetch, which began at begun, tried the beginning of the last attempt; all are zero before the first.
	fetched, begun, tried time.Time
	// flight is closed when the fetch that began last ends, nil when it has ended.
	flight chan struct{}
}

// verify returns the result of try for the issuer's keys. If they are too old, or try refuses them all, the issuer is asked for newer ones,
// at most once in fetchPause. The error is try's, or wraps ErrIssuerUnavailable.
func (u *use) verify(ctx context.Context, try func([]jose.JSONWebKey) ([]byte, error)) ([]byte, error) {
	i, patience := u.issuer, time.Now().Add(foreignFetch)
	for {
		i.mu.Lock()
		keys, fetched := i.keys, i.fetched
		i.mu.Unlock()
		age := time.Since(fetched)
		payload, err := []byte(nil), ErrIssuerUnavailable
		if !fetched.IsZero() && age < keysUsable {
			payload, err = try(keys)
		}
		if errors.Is(err, limit.ErrNoTurn) { // which says nothing about the keys
			return nil, err
		}
		if err == nil && age < keysFresh {
			return payload, nil
		}
		again, failed := u.refresh(ctx, fetched, patience, err == nil)
		switch {
		case again:
		case err == nil:
			return payload, nil
		case failed != nil:
			return nil, failed
		default:
			return nil, err
		}
	}
}

// refresh fetches the issuer's keys if that is due, and reports whether to look at them again. It waits for the fetches of other namespaces until
// the end of patience. If the token is known, by keys that are old, it waits for the namespace's own for foreignFetch alone. The error wraps
// ErrIssuerUnavailable if no fetch ended, and the last one failed or the namespace may not fetch.
func (u *use) refresh(ctx context.Context, seen, patience time.Time, known bool) (bool, error) {
	i := u.issuer
	i.mu.Lock()
	own, flight, changed := u.flight, i.flight, !i.fetched.Equal(seen)
	if own != nil && known {
		own, flight, patience = nil, own, u.patience
	}
	i.mu.Unlock()
	if changed {
		return true, nil
	}
	if ended, err := wait(ctx, own, flight, patience); ended || err != nil {
		return ended, err
	}
	i.mu.Lock()
	late := flight != nil
	due, answered := i.due(u, seen, late), !i.fetched.Before(i.tried)
	changed = !i.fetched.Equal(seen)
	fetching := u.flight != nil && (!known || time.Now().Before(u.patience)) // another request has begun during the wait
	i.mu.Unlock()
	switch {
	case changed || fetching:
		return true, nil
	case !due && !answered:
		return false, ErrIssuerUnavailable
	case !due:
		return false, nil
	}
	// The wait for the namespace's other fetches is before the flight begins, because other namespaces may wait for the flight.
	waiting, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	place, err := u.issuers.places.Acquire(waiting, u.namespace, 1)
	if err != nil {
		return false, ErrIssuerUnavailable
	}
	defer place.Release()
	i.mu.Lock()
	if !i.due(u, seen, late) {
		i.mu.Unlock()
		return true, nil // another request has fetched: look again
	}
	if !u.allow() {
		i.mu.Unlock()
		return false, ErrIssuerUnavailable
	}
	began := time.Now()
	u.flight, u.patience = make(chan struct{}), began.Add(foreignFetch)
	i.tried, i.flight = began, u.flight
	i.mu.Unlock()
	u.fetch(ctx, u.issuers.clientOf(u.namespace), began)
	return true, nil
}

// wait waits for the namespace's own fetch, if one runs, or until the end of patience for another's, and reports whether it ended.
func wait(ctx context.Context, own, other <-chan struct{}, patience time.Time) (ended bool, err error) {
	if own == nil && other == nil {
		return false, nil
	}
	patient := ctx
	if own == nil {
		own = other
		var cancel context.CancelFunc
		patient, cancel = context.WithDeadline(ctx, patience)
		defer cancel()
	}
	select {
	case <-own:
		return true, nil
	case <-patient.Done():
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w: %w", ErrIssuerUnavailable, context.Cause(ctx))
		}
		return false, nil
	}
}

// due reports whether the issuer should be asked for a namespace, for other keys than those of the time seen. late says that the namespace has
// waited for another's fetch. The caller has the lock.
func (i *issuer) due(u *use, seen time.Time, late bool) bool {
	switch {
	case !i.fetched.Equal(seen), u.flight != nil, i.flight != nil && !late:
		return false
	case i.flight == nil && (i.tried.IsZero() || time.Since(i.tried) >= fetchPause):
		return true
	}
	return i.fetched.Before(i.tried) && u.mayAsk()
}

// fetch replaces the keys, unless it fails or a fetch that began later has done so, and ends the flight. The request that needs the keys runs it
// to its end for all waiting requests, also when its own sender has hung up.
func (u *use) fetch(ctx context.Context, client *http.Client, began time.Time) {
	i := u.issuer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	var keys []jose.JSONWebKey
	err := errors.New("panicked")
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if err == nil && !began.Before(i.begun) {
			i.keys, i.fetched, i.begun = keys, time.Now(), began
		}
		close(u.flight)
		if i.flight == u.flight {
			i.flight = nil
		}
		u.flight = nil
	}()
	keys, err = fetchKeys(ctx, client, i.url)
}

// bounded is a transport whose answers end with an error beyond maxFetched.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	next := b.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{http.MaxBytesReader(nil, resp.Body, maxFetched), resp.Body}
	}
	return resp, err
}

package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// authority is an Authority of tokens and rights in memory. A token is a user's name.
type authority struct {
	mu     sync.Mutex
	tokens map[string]bool
	rights map[string]bool // "user verb resource namespace"
	err    error
	// asked counts the checks of rights.
	asked int
	// made is when the namespaces were made.
	made map[string]time.Time
	// takes is the duration of each answer.
	takes time.Duration
}

func newAuthority() *authority {
	return &authority{tokens: map[string]bool{}, rights: map[string]bool{}}
}

// grant gives a user rights in a namespace, each "verb resource".
func (a *authority) grant(user, namespace string, rights ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[user] = true
	for _, r := range rights {
		a.rights[user+" "+r+" "+namespace] = true
	}
}

func (a *authority) revoke(user, namespace, right string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.rights, user+" "+right+" "+namespace)
}

func (a *authority) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *authority) questions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// wait waits for an answer.
func (a *authority) wait(ctx context.Context) error {
	a.mu.Lock()
	takes := a.takes
	a.mu.Unlock()
	if takes == 0 {
		return nil
	}
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *authority) Authenticate(ctx context.Context, token string, _ netip.Addr) (*User, error) {
	if err := a.wait(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.err != nil:
		return nil, a.err
	case !a.tokens[token]:
		return nil, ErrUnauthenticated
	}
	name := token
	if namespace, account, ok := strings.Cut(token, "~"); ok {
		name = "system:serviceaccount:" + namespace + ":" + account
	}
	return &User{Name: name, Key: sha256.Sum256([]byte(token))}, nil
}

func (a *authority) Allowed(ctx context.Context, u *User, r Right, namespace string) (bool, error) {
	if err := a.wait(ctx); err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.err != nil {
		return false, a.err
	}
	name := strings.Replace(strings.TrimPrefix(u.Name, "system:serviceaccount:"), ":", "~", 1)
	return a.rights[name+" "+r.Verb+" "+r.name()+" "+namespace], nil
}

func (a *authority) Made(_ context.Context, namespace string) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made[namespace], a.err
}

// store is a Store in memory, and also the Worker, Explainer and Objects of a Service.
type store struct {
	mu         sync.Mutex
	deliveries []view.Delivery
	events     []view.Event
	records    map[string]*event.Record
	decisions  []view.Decision
	health     []view.Health
	namespaces []string
	err        error
	// entered, unless nil, receives each read. hold, unless nil, delays a read until a value is sent.
	entered chan string
	hold    chan struct{}
	// takes is the duration of a read.
	takes time.Duration
	// query is the query of the last list, replays and tests are the requests received.
	query    view.Query
	next     string
	replays  []view.ReplayRequest
	result   view.ReplayResult
	tests    []view.TestRequest
	follower chan func(any) error
	// begins, unless nil, delays the start of Follow. still says that Follow then stands still.
	begins chan struct{}
	still  bool
	// accepted and ids are the arguments of the last look-up.
	accepted time.Time
	ids      []string
}

func newStore() *store {
	return &store{records: map[string]*event.Record{}, follower: make(chan func(any) error, 8)}
}

func (s *store) enter(ctx context.Context, what string) error {
	if s.entered != nil {
		s.entered <- what
	}
	if s.takes > 0 {
		<-time.After(s.takes)
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.err
}

func (s *store) ListDeliveries(ctx context.Context, _ string, q view.Query) (view.Page[view.Delivery], error) {
	err := s.enter(ctx, "deliveries")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query = q
	return view.Page[view.Delivery]{Items: append([]view.Delivery(nil), s.deliveries...), Next: s.next}, err
}

func (s *store) FindDelivery(ctx context.Context, _, id string) (view.DeliveryDetail, error) {
	if err := s.enter(ctx, "delivery"); err != nil {
		return view.DeliveryDetail{}, err
	}
	for _, d := range s.deliveries {
		if d.ID == id {
			return view.DeliveryDetail{Delivery: d}, nil
		}
	}
	return view.DeliveryDetail{}, view.ErrNotFound
}

func (s *store) FindDeliveries(ctx context.Context, _ string, accepted time.Time, ids []string) (map[string]view.Delivery, error) {
	s.accepted, s.ids = accepted, ids
	found := map[string]view.Delivery{}
	for _, d := range s.deliveries {
		if slices.Contains(ids, d.ID) {
			found[d.ID] = d
		}
	}
	return found, s.enter(ctx, "deliveries of an event")
}

func (s *store) ListEvents(ctx context.Context, _ string, q view.Query) (view.Page[view.Event], error) {
	err := s.enter(ctx, "events")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query = q
	return view.Page[view.Event]{Items: s.events}, err
}

func (s *store) FindEvent(ctx context.Context, _, id string) (*event.Record, error) {
	if err := s.enter(ctx, "event"); err != nil {
		return nil, err
	}
	if r := s.records[id]; r != nil {
		return r, nil
	}
	return nil, view.ErrNotFound
}

func (s *store) ListWebhooks(ctx context.Context, _ string, _ view.Query) (view.Page[view.Webhook], error) {
	return view.Page[view.Webhook]{}, s.enter(ctx, "webhooks")
}

// reportEvery is how often the store says how far its streams are read.
const reportEvery = 2 * time.Second

func (s *store) Follow(ctx context.Context, _ string, _ view.List, handle func(any) error) error {
	if s.begins != nil {
		select {
		case <-s.begins:
		case <-ctx.Done():
			return nil
		}
	}
	if err := handle(view.Begun{}); err != nil {
		return err
	}
	failed := make(chan error, 1)
	s.follower <- func(item any) error {
		err := handle(item)
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
		return err
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case now := <-tick.C:
			if s.still {
				continue
			}
			if err := handle(view.Reached{At: now}); err != nil {
				return err
			}
		}
	}
}

func (s *store) AskReplay(ctx context.Context, _ string, r view.ReplayRequest) (view.ReplayResult, error) {
	err := s.enter(ctx, "replay")
	s.replays = append(s.replays, r)
	return s.result, err
}

func (s *store) AskTest(ctx context.Context, _ string, r view.TestRequest) (view.TestResult, error) {
	err := s.enter(ctx, "test")
	s.tests = append(s.tests, r)
	return view.TestResult{DeliveryID: "made"}, err
}

func (s *store) Explain(context.Context, *event.Record) []view.Decision {
	return append([]view.Decision(nil), s.decisions...)
}
func (s *store) Namespaces() []string        { return s.namespaces }
func (s *store) Health(string) []view.Health { return s.health }

// world is a Handler on fakes.
type world struct {
	*testing.T
	authority *authority
	store     *store
	handler   *Handler
	registry  *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, authority: newAuthority(), store: newStore(), registry: prometheus.NewRegistry()}
	s, err := New(Options{
		Authority: w.authority, Store: w.store, Worker: w.store, Explainer: w.store, Objects: w.store, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.handler, err = NewHandler(s, nil, w.registry)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// reads are the rights of a user with all the rights to read.
var reads = []string{
	"get deliveries", "list deliveries", "watch deliveries", "get events", "list events", "watch events", "list webhooks", "watch webhooks",
}

var writes = []string{"create deliveries/replay", "create providers/test"}

// ask sends a request as a user and returns the answer.
func (w *world) ask(user, method, path, body string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), method, path, strings.NewReader(body))
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+user)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer
}

// want sends a request, and fails the test unless the answer has a status. It decodes the body into value unless value is nil.
func (w *world) want(status int, user, method, path string, value any) *httptest.ResponseRecorder {
	w.Helper()
	got := w.ask(user, method, path, "")
	if got.Code != status {
		w.Fatalf("%s %s as %q: got %d %s, want %d", method, path, user, got.Code, got.Body, status)
	}
	if value != nil {
		if err := json.Unmarshal(got.Body.Bytes(), value); err != nil {
			w.Fatalf("%s: %v", path, err)
		}
	}
	return got
}

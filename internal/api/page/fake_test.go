package page

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/api"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// fixture is the API with the page, over lists in memory. A token is a user's name.
type fixture struct {
	mu sync.Mutex
	// rights are those of each user, each "namespace verb resource". The namespace "*" is any.
	rights map[string][]string
	// audiences are those of tokens.
	audiences []string
	// kept are the contents of each namespace by its name.
	kept map[string]*kept
	// err is the error of every read, and result the answer to replays.
	err error
	// refusal is the error of every replay and test.
	refusal error
	result  view.ReplayResult

	queries []view.Query
	replays []view.ReplayRequest
	tests   []view.TestRequest
}

// kept is the content of one namespace.
type kept struct {
	deliveries []view.DeliveryDetail
	events     []event.Record
	decisions  []view.Decision
	webhooks   []view.Webhook
	health     []view.Health
	next       string
}

// see and edit are the rights of the two roles.
var (
	see = []string{
		"team-a list deliveries", "team-a get deliveries", "team-a list events", "team-a get events", "team-a list webhooks",
		"team-a watch deliveries", "team-a watch events", "team-a watch webhooks",
	}
	edit = append(slices.Clone(see), "team-a create deliveries/replay", "team-a create providers/test")
)

// newFixture returns a fixture with two users of team-a: viewer and editor.
func newFixture() *fixture {
	return &fixture{
		rights: map[string][]string{"viewer": see, "editor": edit},
		kept:   map[string]*kept{"team-a": teamA(time.Now()), "team-b": teamA(time.Now())},
	}
}

// service returns the API's service.
func (f *fixture) service(t testing.TB) *api.Service {
	t.Helper()
	service, err := api.New(api.Options{
		Authority: f, Store: f, Worker: f, Explainer: f, Objects: f, Log: slog.New(slog.DiscardHandler), Audiences: f.audiences,
	})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// handler returns the API's handler with the page.
func (f *fixture) handler(t testing.TB) http.Handler {
	t.Helper()
	service := f.service(t)
	h, err := api.NewHandler(service, New(service, slog.New(slog.DiscardHandler)), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// fill has all bytes be sent that may be sent to a user at a time.
func fill(t *testing.T, s *api.Service, user string) {
	t.Helper()
	sent, err := s.Answer(t.Context(), &api.User{Name: user}, func() (int, error) { return math.MaxInt, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sent)
}

// occupy takes a user's turn until release is called.
func occupy(t *testing.T, s *api.Service, user string) (release func()) {
	t.Helper()
	began, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		sent, err := s.Answer(t.Context(), &api.User{Name: user}, func() (int, error) {
			close(began)
			<-end
			return 0, nil
		})
		if err != nil {
			t.Error(err)
			return
		}
		sent()
	}()
	<-began
	return func() {
		close(end)
		<-ended
	}
}

// ask asks a page over a service.
func ask(t *testing.T, s *api.Service, method, target, user string, w http.ResponseWriter) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+user)
	New(s, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
}

func (f *fixture) Authenticate(_ context.Context, token string, _ netip.Addr) (*api.User, error) {
	if f.rights[token] == nil {
		return nil, api.ErrUnauthenticated
	}
	return &api.User{Name: token}, nil
}

func (f *fixture) Allowed(_ context.Context, u *api.User, r api.Right, namespace string) (bool, error) {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return slices.ContainsFunc(f.rights[u.Name], func(right string) bool {
		return right == namespace+" "+r.Verb+" "+resource
	}), nil
}

func (f *fixture) Made(context.Context, string) (time.Time, error) { return time.Time{}, nil }

func (f *fixture) in(namespace string) (*kept, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return &kept{}, f.err
	}
	if k := f.kept[namespace]; k != nil {
		return k, nil
	}
	return &kept{}, nil
}

func (f *fixture) listed(q view.Query) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = append(f.queries, q)
}

func (f *fixture) ListDeliveries(_ context.Context, namespace string, q view.Query) (p view.Page[view.Delivery], err error) {
	k, err := f.in(namespace)
	if err != nil {
		return p, err
	}
	f.listed(q)
	for _, d := range k.deliveries {
		if (q.State == "" || q.State == d.State) && (q.Provider == "" || q.Provider == d.Provider) {
			p.Items = append(p.Items, d.Delivery)
		}
	}
	p.Next = k.next
	return p, nil
}

func (f *fixture) FindDelivery(_ context.Context, namespace, id string) (view.DeliveryDetail, error) {
	k, err := f.in(namespace)
	if err != nil {
		return view.DeliveryDetail{}, err
	}
	i := slices.IndexFunc(k.deliveries, func(d view.DeliveryDetail) bool { return d.ID == id })
	if i < 0 {
		return view.DeliveryDetail{}, view.ErrNotFound
	}
	return k.deliveries[i], nil
}

func (f *fixture) FindDeliveries(_ context.Context, namespace string, _ time.Time, ids []string) (map[string]view.Delivery, error) {
	k, err := f.in(namespace)
	found := map[string]view.Delivery{}
	for _, d := range k.deliveries {
		if slices.Contains(ids, d.ID) {
			found[d.ID] = d.Delivery
		}
	}
	return found, err
}

func (f *fixture) ListEvents(_ context.Context, namespace string, q view.Query) (p view.Page[view.Event], err error) {
	k, err := f.in(namespace)
	if err != nil {
		return p, err
	}
	f.listed(q)
	for _, e := range k.events {
		p.Items = append(p.Items, view.EventOf(&e))
	}
	p.Next = k.next
	return p, nil
}

func (f *fixture) FindEvent(_ context.Context, namespace, id string) (*event.Record, error) {
	k, err := f.in(namespace)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(k.events, func(r event.Record) bool { return r.ID == id })
	if i < 0 {
		return nil, view.ErrNotFound
	}
	return &k.events[i], nil
}

func (f *fixture) ListWebhooks(_ context.Context, namespace string, q view.Query) (view.Page[view.Webhook], error) {
	k, err := f.in(namespace)
	if err != nil {
		return view.Page[view.Webhook]{}, err
	}
	f.listed(q)
	return view.Page[view.Webhook]{Items: k.webhooks, Next: k.next}, nil
}

func (f *fixture) Follow(ctx context.Context, _ string, _ view.List, _ func(any) error) error {
	<-ctx.Done()
	return nil
}

func (f *fixture) AskReplay(_ context.Context, _ string, r view.ReplayRequest) (view.ReplayResult, error) {
	f.replays = append(f.replays, r)
	return f.result, f.refusal
}

func (f *fixture) AskTest(_ context.Context, _ string, r view.TestRequest) (view.TestResult, error) {
	f.tests = append(f.tests, r)
	return view.TestResult{DeliveryID: "test-delivery"}, f.refusal
}

func (f *fixture) Explain(_ context.Context, r *event.Record) []view.Decision {
	return slices.Clone(f.kept[r.Event.InvolvedObject.Namespace].decisions)
}

func (f *fixture) Namespaces() []string { return []string{"team-a", "team-b"} }

func (f *fixture) Health(namespace string) []view.Health { return f.kept[namespace].health }

// teamA returns a namespace with one of everything.
func teamA(now time.Time) *kept {
	record := event.Record{
		ID: "e1", Source: event.SourcePost, Accepted: now.Add(-5 * time.Minute), Seq: 7,
		Event: event.Event{
			InvolvedObject: event.ObjectReference{Kind: "Kustomization", Namespace: "team-a", Name: "app"}, Severity: "error", Reason: "BuildFailed",
			Message:   "kustomize build failed: accumulating resources from './app.yaml': open ./app.yaml: no such file or directory",
			Metadata:  map[string]string{"revision": "main@sha1:2b6c7d1a9f0e", "cluster": "production-eu"},
			Timestamp: now.Add(-5 * time.Minute),
		},
	}
	message := view.EventOf(&record)
	dead := view.DeliveryDetail{
		Delivery: view.Delivery{
			ID: "d1", Namespace: "team-a", Alert: "all", Provider: "slack-main", Object: message.Object, Reason: message.Reason, Severity: "error",
			State: view.StateDead, Time: now.Add(-time.Minute), Routed: now.Add(-5 * time.Minute), Attempts: 3,
			Failure: "HTTP status 410: the channel is archived", Class: "permanent",
		},
		Message: &message, Authored: []string{"cluster"},
		Tries: []view.Attempt{
			{Time: now.Add(-5 * time.Minute), Millis: 10012, Class: "timeout", Failure: "no answer within 10s", Next: now.Add(-290 * time.Second)},
			{Time: now.Add(-290 * time.Second), Millis: 131, Class: "unavailable", Status: 503, Failure: "HTTP status 503", Next: now.Add(-time.Minute)},
			{Time: now.Add(-time.Minute), Millis: 87, Class: "permanent", Status: 410, Failure: "HTTP status 410: the channel is archived"},
		},
	}
	sent, pending := dead, dead
	sent.ID, sent.Provider, sent.State, sent.Attempts, sent.Failure, sent.Class = "d2", "teams", view.StateSent, 1, "", ""
	sent.Tries = []view.Attempt{{Time: now.Add(-5 * time.Minute), Millis: 210, Class: "sent"}}
	pending.ID, pending.Provider, pending.State, pending.Attempts, pending.Next = "d3", "pagerduty", view.StatePending, 2, now.Add(95*time.Second)
	pending.Tries, pending.Failure = dead.Tries[:2], "HTTP status 503"
	return &kept{
		deliveries: []view.DeliveryDetail{dead, sent, pending},
		events:     []event.Record{record},
		decisions: []view.Decision{
			{Alert: "quiet", Provider: "teams", Field: "spec.eventSeverity", Why: "It takes errors only, and the event is info."},
			{Alert: "all", Provider: "slack-main", Matched: true, Why: "It was taken.", DeliveryID: "d1"},
		},
		webhooks: []view.Webhook{
			{
				Namespace: "team-a", Receiver: "app", Time: now.Add(-2 * time.Minute), ID: "72d3162e-cc78-11e3", Result: "accepted",
				Targets: []string{"GitRepository/app"}, Count: 1,
			},
			{
				Namespace: "team-a", Receiver: "app", Time: now.Add(-4 * time.Minute), Result: "unauthentic", Reason: "the signature does not hold", Count: 214,
			},
		},
		health: []view.Health{
			{Kind: "Provider", Name: "slack-main", Problem: "the channel is archived"},
			{Kind: "Provider", Name: "teams", Ready: true},
			{Kind: "Alert", Name: "all", Ready: true, Problem: "some messages were lost"},
		},
	}
}

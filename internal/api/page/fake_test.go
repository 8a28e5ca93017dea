package page

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"notifier/internal/event/view"
)

// fakeService knows users by their tokens.
type fakeService map[string]*fakeUser

func (s fakeService) SignIn(r *http.Request) (User, error) {
	u, ok := s[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		return nil, ErrSignIn
	}
	return u, nil
}

// fakeUser may see the namespaces that it has, and do what may holds.
type fakeUser struct {
	name       string
	may        []Action
	namespaces map[string]*fakeNamespace
	// err is what every method fails with.
	err error

	queries  []view.Query
	replays  []view.ReplayRequest
	tests    []view.TestRequest
	replayed view.ReplayResult
}

type fakeNamespace struct {
	deliveries []view.DeliveryDetail
	events     []view.Event
	decisions  []view.Decision
	webhooks   []view.Webhook
	health     Health
	next       string
}

func (u *fakeUser) Name() string { return u.name }

func (u *fakeUser) Namespaces(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(u.namespaces)), u.err
}

func (u *fakeUser) in(namespace string) (*fakeNamespace, error) {
	if u.err != nil {
		return nil, u.err
	}
	n := u.namespaces[namespace]
	if n == nil {
		return nil, ErrForbidden
	}
	return n, nil
}

func (u *fakeUser) Deliveries(_ context.Context, namespace string, q view.Query) (p view.Page[view.Delivery], err error) {
	n, err := u.in(namespace)
	if err != nil {
		return p, err
	}
	u.queries = append(u.queries, q)
	for _, d := range n.deliveries {
		if (q.State == "" || q.State == d.State) && (q.Provider == "" || q.Provider == d.Provider) {
			p.Items = append(p.Items, d.Delivery)
		}
	}
	p.Next = n.next
	return p, nil
}

func (u *fakeUser) Delivery(_ context.Context, namespace, id string) (view.DeliveryDetail, error) {
	n, err := u.in(namespace)
	if err != nil {
		return view.DeliveryDetail{}, err
	}
	for _, d := range n.deliveries {
		if d.ID == id {
			return d, nil
		}
	}
	return view.DeliveryDetail{}, view.ErrNotFound
}

func (u *fakeUser) Events(_ context.Context, namespace string, q view.Query) (p view.Page[view.Event], err error) {
	n, err := u.in(namespace)
	if err != nil {
		return p, err
	}
	u.queries = append(u.queries, q)
	return view.Page[view.Event]{Items: n.events, Next: n.next}, nil
}

func (u *fakeUser) Explain(_ context.Context, namespace, id string) (view.Explanation, error) {
	n, err := u.in(namespace)
	if err != nil {
		return view.Explanation{}, err
	}
	for _, e := range n.events {
		if e.ID == id {
			return view.Explanation{Event: e, Decisions: slices.Clone(n.decisions)}, nil
		}
	}
	return view.Explanation{}, view.ErrNotFound
}

func (u *fakeUser) Webhooks(_ context.Context, namespace string, q view.Query) (p view.Page[view.Webhook], err error) {
	n, err := u.in(namespace)
	if err != nil {
		return p, err
	}
	u.queries = append(u.queries, q)
	return view.Page[view.Webhook]{Items: n.webhooks, Next: n.next}, nil
}

func (u *fakeUser) Health(_ context.Context, namespace string) (Health, error) {
	n, err := u.in(namespace)
	if err != nil {
		return Health{}, err
	}
	return n.health, nil
}

func (u *fakeUser) Replay(_ context.Context, namespace string, req view.ReplayRequest) (view.ReplayResult, error) {
	if _, err := u.in(namespace); err != nil {
		return view.ReplayResult{}, err
	}
	if !slices.Contains(u.may, Replay) {
		return view.ReplayResult{}, ErrForbidden
	}
	u.replays = append(u.replays, req)
	return u.replayed, nil
}

func (u *fakeUser) Test(_ context.Context, namespace string, req view.TestRequest) (view.TestResult, error) {
	if _, err := u.in(namespace); err != nil {
		return view.TestResult{}, err
	}
	if !slices.Contains(u.may, Test) {
		return view.TestResult{}, ErrForbidden
	}
	u.tests = append(u.tests, req)
	return view.TestResult{DeliveryID: "test-delivery"}, nil
}

func (u *fakeUser) May(_ context.Context, _ string, a Action) bool { return slices.Contains(u.may, a) }

// teamA is a namespace with one of everything.
func teamA(now time.Time) *fakeNamespace {
	message := view.Event{
		ID: "e1", Namespace: "team-a", Object: view.Object{Kind: "Kustomization", Name: "app"}, Severity: "error", Reason: "BuildFailed",
		Message:  "kustomize build failed: accumulating resources from './app.yaml': open ./app.yaml: no such file or directory",
		Metadata: map[string]string{"revision": "main@sha1:2b6c7d1a9f0e", "cluster": "production-eu"},
		Time:     now.Add(-5 * time.Minute), Accepted: now.Add(-5 * time.Minute), Source: "post", Order: 7,
	}
	dead := view.DeliveryDetail{
		Delivery: view.Delivery{
			ID: "d1", Namespace: "team-a", Alert: "all", Provider: "slack-main", Object: message.Object, Reason: message.Reason, Severity: "error",
			State: view.StateDead, Time: now.Add(-time.Minute), Routed: now.Add(-5 * time.Minute), Attempts: 3, Failure: "HTTP status 410: the channel is archived",
			Class: "permanent",
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
	return &fakeNamespace{
		deliveries: []view.DeliveryDetail{dead, sent, pending},
		events:     []view.Event{message},
		decisions: []view.Decision{
			{Alert: "quiet", Provider: "teams", Field: "spec.eventSeverity", Why: "It takes errors only, and the event is info."},
			{Alert: "all", Provider: "slack-main", Matched: true, Why: "It was taken.", DeliveryID: "d1", Delivery: &dead.Delivery},
		},
		webhooks: []view.Webhook{
			{Namespace: "team-a", Receiver: "app", Time: now.Add(-2 * time.Minute), ID: "72d3162e-cc78-11e3", Result: "accepted", Targets: []string{"GitRepository/app"}, Count: 1},
			{Namespace: "team-a", Receiver: "app", Time: now.Add(-4 * time.Minute), Result: "unauthentic", Reason: "the signature does not hold", Count: 214},
		},
		health: Health{
			Providers: []Object{
				{Name: "slack-main", Type: "slack", State: "failed", Problem: "the channel is archived"}, {Name: "teams", Type: "msteams", State: "ready"},
			},
			Alerts: []Object{{Name: "all", State: "ready"}},
		},
	}
}

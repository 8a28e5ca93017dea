package browser

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"testing"
	"time"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// site is a notifier with its API, two tenants and an admin, and their data.
type site struct {
	notifier *env.Notifier
	sink     *env.Sink
	// url is the base of the API's addresses, without a trailing slash.
	url   string
	a, b  tenant
	admin string
}

// tenant is a namespace, the token of its owner, and the name of its Kustomization.
type tenant struct {
	*env.Tenant
	namespace, token, object string
}

var shared = env.Shared(newSite)

// at returns the site with data for every test. Tests change it only by new events and by replays.
func at(t *testing.T) *site {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs := s.notifier.Logs()
			t.Logf("the notifier's log ends with:\n%s", logs[max(0, len(logs)-8000):])
		}
	})
	return s
}

func newSite(ctx context.Context) (*site, error) {
	system, err := env.NewSystem(ctx, true)
	if err != nil {
		return nil, err
	}
	s := &site{}
	if s.notifier, err = system.Start(ctx, env.NotifierOptions{}); err != nil {
		return nil, err
	}
	s.url = s.notifier.APIURL
	if s.sink, err = env.NewSink(); err != nil {
		return nil, err
	}
	s.sink.AnswerWith(func(r env.Received) env.Answer {
		switch r.Path {
		case "/old-channel":
			return env.Answer{Status: http.StatusGone}
		case "/busy":
			return env.Answer{Status: http.StatusServiceUnavailable, RetryAfter: time.Hour}
		default:
			return env.Answer{}
		}
	})
	for _, step := range []func(context.Context, *env.System) error{s.people, s.objects, s.happenings} {
		if err := step(ctx, system); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// people makes the namespaces and the users: their owners with the roles that the product ships, and an admin.
func (s *site) people(ctx context.Context, system *env.System) error {
	for _, p := range []struct {
		tenant       *tenant
		name, object string
	}{{&s.a, "team-a", "app"}, {&s.b, "team-b", "ledger"}} {
		made, err := system.Tenant(ctx, p.name)
		if err != nil {
			return err
		}
		*p.tenant = tenant{Tenant: made, namespace: p.name, object: p.object}
		if p.tenant.token, err = system.Owner(ctx, p.name, p.name); err != nil {
			return err
		}
	}
	var err error
	s.admin, err = system.Owner(ctx, env.SystemNamespace, "")
	return err
}

// objects makes Alerts of four sorts: to a destination that accepts everything, to one that is permanently gone, and to
// one that is busy for longer than the tests last. The fourth leaves events out.
func (s *site) objects(ctx context.Context, _ *env.System) error {
	for _, t := range []tenant{s.a, s.b} {
		if err := t.Object(ctx, "Kustomization", t.object, nil, ""); err != nil {
			return err
		}
		if err := t.Alert(ctx, "releases", "slack", s.sink.URL("/releases"), env.AnyKustomization); err != nil {
			return err
		}
	}
	if err := s.a.Alert(ctx, "old-channel", "slack", s.sink.URL("/old-channel"), env.AnyKustomization); err != nil {
		return err
	}
	if err := s.a.Alert(ctx, "on-call", "msteams", s.sink.URL("/busy"), env.AnyKustomization); err != nil {
		return err
	}
	return s.a.Alert(ctx, "charts", "slack", s.sink.URL("/charts"), `{"kind":"HelmRelease","name":"*"}`)
}

const hookToken = "a-token-of-the-git-host"

// happenings sends events and webhooks, and waits until every event that can be delivered is.
func (s *site) happenings(ctx context.Context, _ *env.System) error {
	path, err := s.a.GitHubReceiver(ctx, "app", "app", hookToken, `,"events":["push"]`)
	if err != nil {
		return err
	}
	for _, token := range []string{hookToken, "of-somebody-else"} {
		if _, err := s.notifier.GitHub(ctx, path, token, "push", env.GitHubPush); err != nil {
			return err
		}
	}
	const message = "kustomize build failed: accumulating resources from './app.yaml': open ./app.yaml: no such file or directory"
	for _, e := range []struct {
		of                                  tenant
		severity, reason, message, revision string
	}{
		{s.a, "info", "ReconciliationSucceeded", "Applied revision: main@sha1:1f2e3d4c", "main@sha1:1f2e3d4c"},
		{s.b, "error", "HealthCheckFailed", "Deployment/ledger is not ready", "main@sha1:99887766"},
		{s.a, "error", "BuildFailed", message, "main@sha1:5a6b7c8d"},
	} {
		if err := s.post(ctx, e.of, e.severity, e.reason, e.message, e.revision); err != nil {
			return err
		}
	}
	_, err = s.sink.Wait(ctx, func(got []env.Received) bool { return len(got) >= 6 })
	return err
}

// post sends an event about the Kustomization of a tenant, as its controller does.
func (s *site) post(ctx context.Context, of tenant, severity, reason, message, revision string) error {
	event, err := of.Event(ctx, "Kustomization", of.object, severity, reason, message, revision)
	if err != nil {
		return err
	}
	resp, err := s.notifier.Post(ctx, event)
	if err == nil && resp.Status != http.StatusAccepted {
		err = fmt.Errorf("an event was answered %d: %s", resp.Status, resp.Body)
	}
	return err
}

// fresh returns a reason that no event has yet, also of an earlier run of the test on the same site.
func fresh(reason string) string { return reason + rand.Text() }

// event POSTs an event about the first tenant's Kustomization.
func (s *site) event(t *testing.T, reason, message string) {
	t.Helper()
	if err := s.post(t.Context(), s.a, "error", reason, message, fmt.Sprintf("main@sha1:%x", time.Now().UnixNano())); err != nil {
		t.Fatal(err)
	}
}

// first returns the path of the newest item of a list of the first tenant.
func (s *site) first(b *tab, list string) string {
	b.Helper()
	b.signIn(s.url+"/ns/"+s.a.namespace+"/"+list, s.a.token)
	b.wait(`document.querySelector("a.row")`)
	return eval[string](b, `document.querySelector("a.row").getAttribute("href")`)
}

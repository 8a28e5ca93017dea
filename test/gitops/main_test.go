package gitops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

const (
	// applier is the service account as which a tenant's Kustomizations apply.
	applier = "applier"
	// calm is how long the watchers must have nothing to publish before a test takes the messages for complete.
	calm = 3 * time.Second
	// soon bounds the time from a cause to its messages.
	soon = time.Minute
)

// shared is a cluster with a notifier and the real Flux.
type shared struct {
	notifier *env.Notifier
	flux     *Flux
	git      *GitServer
	// posts says that Flux POSTs its events to notifier; otherwise only the objects' status shows them.
	posts bool
}

// ways are both ways to run. Each has a cluster of its own, since the watchers wait longer for a controller that POSTs.
var ways = map[string]func() (*shared, error){
	"POSTs":        env.Shared(func(ctx context.Context) (*shared, error) { return open(ctx, true) }),
	"status alone": env.Shared(func(ctx context.Context) (*shared, error) { return open(ctx, false) }),
}

func open(ctx context.Context, posts bool) (*shared, error) {
	programs, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := env.StartControlPlane(ctx, env.ClusterOptions{})
	if err != nil {
		return nil, err
	}
	if err := Install(ctx, cluster); err != nil {
		return nil, err
	}
	w, err := env.InstallOn(ctx, cluster, true)
	if err != nil {
		return nil, err
	}
	s := &shared{posts: posts}
	if s.notifier, err = w.Start(ctx, env.NotifierOptions{}); err != nil {
		return nil, err
	}
	if s.git, err = ServeGit(ctx); err != nil {
		return nil, err
	}
	o := Options{ServiceAccount: applier}
	if posts {
		o.Events = s.notifier.EventsURL
	}
	s.flux, err = programs.Start(ctx, cluster, o)
	return s, err
}

// fixture is the start of one test.
type fixture struct {
	*env.Fixture
	*shared
}

// eachWay runs a test with events that are POSTed, and in parallel without. The tests themselves run one after the
// other: that no message is outstanding is known only for all tenants together.
func eachWay(t *testing.T, test func(s *fixture)) {
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := open()
			if err != nil {
				t.Fatal(err)
			}
			test(&fixture{Fixture: env.NewFixture(t, all.notifier.System(), all.notifier), shared: all})
		})
	}
}

// deployed makes two teams whose apps are applied and that got the messages about that, each once.
func (s *fixture) deployed() (a, b *team) {
	s.Helper()
	a, b = s.newTeam(s.Tenant), s.newTeam(s.NewTenant())
	first := map[*team]string{}
	for _, m := range []*team{a, b} {
		first[m] = m.push("first", m.configMap("{v: one}"))
		m.deploy()
	}
	for m, revision := range first {
		m.toldApplied("first", revision, "created")
	}
	return a, b
}

// nothingMore waits until all expected messages have arrived, and ends the test when one of the teams got any other.
func (s *fixture) nothingMore(teams ...*team) {
	s.Helper()
	var since time.Time
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
		waiting, err := s.Metric(ctx, "notifier_watch_transitions_waiting")
		switch {
		case err != nil:
			return err
		case waiting > 0:
			since = time.Time{}
			return fmt.Errorf("%v transitions wait", waiting)
		case since.IsZero():
			since = time.Now()
		}
		if time.Since(since) < calm {
			return errors.New("a moment ago a transition waited")
		}
		return nil
	}))
	for _, m := range teams {
		m.only()
	}
}

// logs returns the lines of both controllers about a namespace.
func (s *fixture) logs(namespace string) string {
	var about []string
	for l := range strings.SplitSeq(s.flux.Source.Logs()+"\n"+s.flux.Kustomize.Logs(), "\n") {
		if strings.Contains(l, namespace) {
			about = append(about, l)
		}
	}
	return strings.Join(about, "\n")
}

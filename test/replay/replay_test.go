package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

const (
	// playTime bounds a play of all recordings, which run side by side; the longest is of two minutes.
	playTime = 6 * time.Minute
	// emitterTime is how long controllers try to POST an event, so that a watcher may wait for it.
	emitterTime = 20 * time.Second
	// settle is how long a state must last to be told by a watcher, and a little.
	settle = 7 * time.Second
)

// kills are when notifier is killed, from the start of a play. None falls on the one state that nobody POSTs and that lasts no longer than
// a restart and the time it takes to settle (events-endpoint-down-20s, from 75 to 85 s).
var kills = []time.Duration{1200 * time.Millisecond, 13 * time.Second, 33 * time.Second, 61 * time.Second, 93 * time.Second, 117 * time.Second}

// longestPause is the longest that a controller waits before it POSTs an event again. So long is notifier up between two kills, on a slow
// machine as well: an event that its controller gave up is no fact about notifier.
const longestPause = 8 * time.Second

// everything is an Alert's list of sources.
const everything = `[{"kind":"GitRepository","name":"*"},{"kind":"HelmChart","name":"*"},{"kind":"HelmRepository","name":"*"},
	{"kind":"Kustomization","name":"*"},{"kind":"ImageRepository","name":"*"},{"kind":"ImagePolicy","name":"*"},
	{"kind":"ImageUpdateAutomation","name":"*"}]`

// play is one play of all recordings on a cluster of its own.
type play struct {
	*testing.T
	ctx      context.Context
	system   *env.System
	sink     *env.Sink
	players  []*player
	expected map[string]expectation
}

func newPlay(t *testing.T) *play {
	t.Helper()
	t.Parallel()
	opening, cancel := context.WithTimeout(t.Context(), env.OpenTimeout)
	defer cancel()
	w, err := env.NewSystem(opening, true)
	p := &play{T: t, system: w}
	p.must(err)
	t.Cleanup(func() { _ = w.Stop() })
	ctx, cancelPlay := context.WithTimeout(t.Context(), playTime)
	t.Cleanup(cancelPlay)
	p.ctx = ctx
	p.sink, err = env.NewSink()
	p.must(err)
	t.Cleanup(func() { _ = p.sink.Down() })
	recordings, expected, err := load()
	p.must(err)
	p.expected = expected
	for _, r := range recordings {
		if _, ok := expected[r.name]; !ok {
			t.Errorf("nothing is expected of %s", r.name)
		}
		pl := &player{
			recording: r, system: w, namespaces: map[string]string{},
			live: map[string]*unstructured.Unstructured{}, recorded: map[string]*unstructured.Unstructured{}, uids: map[string]string{},
		}
		for _, s := range r.steps {
			if s.Watch != nil {
				p.namespace(pl, s.Watch.Object.GetNamespace())
			}
		}
		p.must(pl.found(ctx))
		p.players = append(p.players, pl)
	}
	return p
}

func (p *play) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// namespace makes the namespace that stands for a recorded one, with an Alert of either severity on everything.
func (p *play) namespace(pl *player, recorded string) {
	p.Helper()
	if pl.namespaces[recorded] != "" {
		return
	}
	name, err := p.system.Namespace(p.ctx, pl.name[:min(len(pl.name), 40)]+"-"+recorded+"-")
	p.must(err)
	pl.namespaces[recorded] = name
	tenant := &env.Tenant{System: p.system, Namespace: name}
	for _, severity := range []string{"info", "error"} {
		p.must(tenant.Secret(p.ctx, severity, map[string]string{"address": p.sink.URL("/" + name + "/" + severity)}))
		p.must(tenant.Object(p.ctx, "Provider", severity, nil, fmt.Sprintf(`{"type":"generic","secretRef":{"name":%q}}`, severity)))
		p.must(tenant.Object(p.ctx, "Alert", severity, nil,
			fmt.Sprintf(`{"providerRef":{"name":%[1]q},"eventSeverity":%[1]q,"eventSources":%[2]s}`, severity, everything)))
	}
}

// start starts a notifier.
func (p *play) start(args ...string) *env.Notifier {
	p.Helper()
	n, err := p.system.Start(p.ctx, env.NotifierOptions{Args: args})
	p.must(err)
	p.Cleanup(func() { _ = n.Kill() })
	return n
}

// run plays all recordings, from when a watcher takes no state for one that its controller may still be POSTing.
func (p *play) run(endpoint func(n int) *env.Notifier) {
	p.Helper()
	p.must(pause(p.ctx, emitterTime))
	var playing sync.WaitGroup
	for _, pl := range p.players {
		pl.endpoint = endpoint
		playing.Go(func() {
			if err := pl.play(p.ctx); err != nil {
				p.Error(err)
			}
		})
	}
	playing.Wait()
	p.must(pause(p.ctx, emitterTime+settle)) // what is told now at last would be one too many, or is told late
}

// check compares what came of each recording with the facts.
func (p *play) check(facts func(expectation, string) []fact) {
	p.Helper()
	received := p.sink.Received()
	for _, pl := range p.players {
		for recorded, namespace := range pl.namespaces {
			for _, severity := range []string{"info", "error"} {
				got, err := messagesOf(received, "/"+namespace+"/"+severity)
				p.must(err)
				var want []fact
				for _, f := range facts(p.expected[pl.name], severity) {
					if strings.Contains(f.Object, "/"+recorded+"/") {
						want = append(want, f)
					}
				}
				for _, fault := range compare(got, want) {
					p.Errorf("%s, %s, severity %s: %s", pl.name, recorded, severity, fault)
				}
			}
		}
	}
}

// told is what is told where controllers POST.
func told(e expectation, severity string) []fact {
	if severity == "info" {
		return e.Info
	}
	var failures []fact
	for _, i := range e.Error {
		failures = append(failures, e.Info[i])
	}
	return failures
}

// watched is what is told where they do not: the states that lasted. One that came back after others that did not last is no news.
func watched(e expectation, severity string) []fact {
	var facts []fact
	shown, passed := map[string]fact{}, map[string]fact{}
	for _, f := range e.Transitions {
		lasted := f.LastsMS == nil || time.Duration(*f.LastsMS)*time.Millisecond >= settle
		if f.Transient || !lasted {
			passed[f.Object] = f
		}
		if f.Transient {
			continue
		}
		last, any := shown[f.Object]
		skipped, since := passed[f.Object]
		back := since && skipped.UID == f.UID && (!any || last.Outcome == f.Outcome && last.Revision == f.Revision)
		if f.Must = lasted && !back; lasted {
			shown[f.Object] = f
			delete(passed, f.Object)
		}
		if severity == "info" || f.Outcome == "failed" {
			facts = append(facts, f)
		}
	}
	return facts
}

// E2, E4, E6: what real controllers write and POST is told once, in order and with the right revision. Fails when a state is told that an
// object only passed through, or one that was POSTed is told once more.
func TestE4E6EachFactIsToldOnceWithPosts(t *testing.T) {
	p := newPlay(t)
	n := p.start()
	p.run(func(int) *env.Notifier { return n })
	p.check(told)
}

// E6: the same where controllers POST nothing. Fails when the first of two requests is taken for the whole status, or waiting for a source
// for a failure.
func TestE6EachStateThatLastsIsToldOnceWithoutPosts(t *testing.T) {
	p := newPlay(t)
	p.start()
	p.run(nil)
	p.check(watched)
}

// E2, E3, E6: the same when notifier is killed again and again meanwhile. Fails when what was told, or POSTed, is forgotten.
func TestE2E6EachFactIsToldOnceOverKills(t *testing.T) {
	p := newPlay(t)
	n := p.start()
	var killing sync.WaitGroup
	began := time.Now().Add(emitterTime) // as run does
	killing.Go(func() {
		for _, at := range kills {
			if err := errors.Join(pause(p.ctx, time.Until(began.Add(at))), n.Kill(), n.Restart(p.ctx), pause(p.ctx, longestPause)); err != nil {
				p.Error(err)
				return
			}
		}
	})
	p.run(func(int) *env.Notifier { return n })
	killing.Wait()
	p.check(told)
}

// E2, E4, E6: the same with two replicas, each of which takes half of the POSTs. Fails when the one that watches does not learn what the
// other was POSTed.
func TestE4E6EachFactIsToldOnceByTwoReplicas(t *testing.T) {
	p := newPlay(t)
	nats, err := env.StartNATS(p.ctx, env.NATSOptions{})
	p.must(err)
	t.Cleanup(func() { _ = nats.Stop() })
	fleet := []*env.Notifier{
		p.start("--nats-url", nats.URL), p.start("--nats-url", nats.URL),
	}
	p.run(func(n int) *env.Notifier { return fleet[n%2] })
	p.check(told)
}

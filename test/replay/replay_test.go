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
	// emitterTime is how long controllers try to POST an event; a watcher may wait for it so long.
	emitterTime = 20 * time.Second
	// settle is slightly longer than a state must last for a watcher to publish it.
	settle = 7 * time.Second
	// undisturbed is how long the steps of one action may take: less than a state must last for a watcher to publish it. plays is how often
	// the recordings are played before that is no excuse.
	undisturbed = 4 * time.Second
	plays       = 3
)

// kills are the times of a play at which notifier is killed. They avoid the one state that no controller POSTs and that lasts no longer
// than a restart and the time it takes to settle (events-endpoint-down-20s, from 75 to 85 s). Notifier is up for 8 s between two of them,
// the longest time before a controller POSTs an event again: an event that its controller gave up proves nothing about notifier.
var kills = []time.Duration{1200 * time.Millisecond, 13 * time.Second, 33 * time.Second, 61 * time.Second, 93 * time.Second, 117 * time.Second}

// restartTime is how long a restart takes at most in the time of a play.
const restartTime = 3 * time.Second

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
	clock    *clock
}

// playAll has a test play all recordings, and compares what was told with the facts. When the machine stood still in the middle of an action,
// a state lasted that its object only passed through. That play says nothing about notifier, and another one is made.
func playAll(t *testing.T, facts func(expectation, string) []fact, test func(p *play)) {
	t.Helper()
	t.Parallel()
	again := true
	for n := 1; again && n <= plays; n++ {
		again = false
		t.Run(fmt.Sprint("play ", n), func(t *testing.T) {
			p := newPlay(t)
			test(p)
			held := p.held()
			if again = held > undisturbed && n < plays; again {
				t.Logf("an action took %s: the recordings are played once more", held.Round(time.Millisecond))
				return
			}
			p.check(facts)
		})
	}
}

func newPlay(t *testing.T) *play {
	t.Helper()
	opening, cancel := context.WithTimeout(t.Context(), env.OpenTimeout)
	defer cancel()
	w, err := env.NewSystem(opening, true)
	p := &play{T: t, system: w, clock: newClock()}
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
			recording: r, system: w, clock: p.clock, namespaces: map[string]string{},
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

// namespace makes the namespace for a recorded one, with an Alert of either severity on everything.
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

// restart starts a killed notifier and waits until it publishes the transitions of every recorded kind.
func (p *play) restart(n *env.Notifier) error {
	if err := n.Restart(p.ctx); err != nil {
		return err
	}
	return env.Eventually(p.ctx, func(ctx context.Context) error {
		for kind := range resources {
			if publishing, err := n.Metric(ctx, "notifier_watch_kind_publishing", "kind", kind); err != nil || publishing != 1 {
				return errors.Join(fmt.Errorf("transitions of kind %s are not published", kind), err)
			}
		}
		return nil
	})
}

// run plays all recordings. It first waits until a watcher no longer waits for the POST of a state.
func (p *play) run(endpoint func(n int) *env.Notifier) {
	p.Helper()
	p.must(pause(p.ctx, emitterTime))
	p.clock.start()
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
	p.must(pause(p.ctx, emitterTime+settle)) // a message at this point would be one too many, or late
}

// held returns the longest time that an action took.
func (p *play) held() (most time.Duration) {
	for _, pl := range p.players {
		most = max(most, pl.held)
	}
	return most
}

// check compares the messages of each recording with the facts.
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

// told returns the facts that are published if controllers POST.
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

// watched returns the facts that are published if they do not: the states that lasted. A state that returns after others
// that did not last is not published.
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

// E2, E4, E6: the changes and POSTs of real controllers are published once, in order and with the right revision. Fails
// when a state is published that an object only passed through, or when a POSTed state is published again.
func TestE4E6EachFactIsDeliveredOnceWithPosts(t *testing.T) {
	playAll(t, told, func(p *play) {
		n := p.start()
		p.run(func(int) *env.Notifier { return n })
	})
}

// E6: the same without POSTs of controllers. Fails when the first of two requests is taken for the whole status, or the
// wait for a source for a failure.
func TestE6EachStateThatLastsIsDeliveredOnceWithoutPosts(t *testing.T) {
	playAll(t, watched, func(p *play) {
		p.start()
		p.run(nil)
	})
}

// E2, E3, E6: the same when notifier is killed again and again meanwhile. Fails when a published or POSTed state is
// forgotten.
func TestE2E6EachFactIsDeliveredOnceOverKills(t *testing.T) {
	playAll(t, told, func(p *play) {
		n := p.start()
		var killing sync.WaitGroup
		killing.Go(func() {
			for _, at := range kills {
				if err := errors.Join(p.clock.wait(p.ctx, at), n.Kill(), p.clock.atMost(restartTime, func() error { return p.restart(n) })); err != nil {
					p.Error(err)
					return
				}
			}
		})
		p.run(func(int) *env.Notifier { return n })
		killing.Wait()
	})
}

// E2, E4, E6: the same with two replicas, each of which gets half of the POSTs. Fails when the watching replica does not
// learn of the other's POSTs.
func TestE4E6EachFactIsDeliveredOnceByTwoReplicas(t *testing.T) {
	playAll(t, told, func(p *play) {
		nats, err := env.StartNATS(p.ctx, env.NATSOptions{})
		p.must(err)
		p.Cleanup(func() { _ = nats.Stop() })
		fleet := []*env.Notifier{
			p.start("--nats-url", nats.URL), p.start("--nats-url", nats.URL),
		}
		p.run(func(n int) *env.Notifier { return fleet[n%2] })
	})
}

package chaos

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
)

var fleetKills = flag.Int("fleet-kills", 6, "how often TestE2T4NothingIsLostWhenWorkersAndNATSNodesAreKilled kills")

const (
	fleetSize = 3
	// fleetPerSecond is the greatest rate of two processors beside a cluster that stores everything three times, also
	// while they recover from a kill. With more, the backlog grows from one kill to the next.
	fleetPerSecond = 100
	// fleetSetUp bounds the time before and after the kills, fleetRound each of them: elections of NATS take ten seconds
	// alone.
	fleetSetUp = 5 * time.Minute
	fleetRound = time.Minute
)

// The processes that a kill ends: the replica that is the worker, the NATS node that leads a stream, or one of each.
const (
	killWorker = "worker"
	killNode   = "node"
	killBoth   = "worker and node"
)

// killsInTurn kills at most one node at once, since three replicas of a stream outlive one.
var killsInTurn = []string{killWorker, killNode, killWorker, killNode, killWorker, killBoth}

// led are the streams whose leaders are killed in turn. The empty name is the cluster's own log, of its streams and
// consumers.
var led = []string{"", "EVENTS", "TRIGGERS", "HISTORY", "KV_worker", "DELIVERIES"}

// E2, E3, E4, T4 for a realistic fleet: three replicas beside a NATS cluster of three nodes that keeps each stream three
// times. A killed process is started again at once, and the next kill follows when everything works again. Fails, for
// instance, when a publish that no node has acknowledged counts as stored, or when an applier acknowledges a trigger
// before its patch.
func TestE2T4NothingIsLostWhenWorkersAndNATSNodesAreKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	loadCtx, stopLoad := context.WithCancel(f.ctx)
	var running sync.WaitGroup
	began := time.Now()
	running.Go(func() { f.run(loadCtx) })
	f.works(0)
	var crashes []crash
	for i := range *fleetKills {
		c := f.strike(i)
		f.works(i + 1)
		c.over = time.Now()
		crashes = append(crashes, c)
		t.Logf("kill %d, %s: everything works again after %s", i, c.what, c.over.Sub(c.at).Round(time.Millisecond))
		if c.what == killWorker { // another replica has taken over its work
			crashes[i].over = c.at
		}
	}
	stopLoad()
	running.Wait()
	ended := time.Now()
	f.targets = append(f.targets, f.probed)
	f.targets = append(f.targets, f.victims...)
	f.objects = append(f.objects, f.probe)
	t.Logf("under load for %s", ended.Sub(began).Round(time.Second))
	sum := f.balance(f.ctx, crashes)
	f.spaced(f.audit)
	f.silences(crashes, ended)
	t.Logf("the latest that came again had first come %s after its kill", sum.late.Round(time.Millisecond))
}

// fleet is the load with the killed processes under it.
type fleet struct {
	*load
	ctx     context.Context
	nats    *env.NATSCluster
	audit   *env.Audit
	moments *moments
	// probed and probe are the target and the object that show that everything works.
	probed *target
	probe  *object
	// victims are two targets of each kill. The last webhook of one is answered just before the kill; the only one of
	// the other is sent right after it. All other targets get more, which would make up for a lost one.
	victims []*target
	struck  int // how many nodes were killed
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	w, err := sharedSystem()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), fleetSetUp+time.Duration(*fleetKills)*fleetRound)
	t.Cleanup(cancel)
	w = shipped(ctx, t, w)
	nats, err := env.StartNATSCluster(ctx, env.NATSOptions{})
	must(t, err)
	t.Cleanup(func() { _ = nats.Stop() })
	sink, err := env.NewSink()
	must(t, err)
	t.Cleanup(func() { _ = sink.Down() })
	audit, err := w.Audit()
	must(t, err)
	replicas := make([]*env.Notifier, fleetSize)
	var starting errgroup.Group
	for i := range replicas {
		starting.Go(func() (err error) {
			replicas[i], err = w.Launch(ctx, env.NotifierOptions{Args: []string{"--nats-url", nats.URL, "--stream-replicas", "3"}})
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = replicas[i].Kill() })
			return replicas[i].Ready(ctx)
		})
	}
	must(t, starting.Wait())
	f := &fleet{ctx: ctx, nats: nats, audit: audit, moments: newMoments(sink), load: prepare(ctx, t, w, sink)}
	f.fleet, f.perSecond = replicas, fleetPerSecond
	f.onAccept = f.moments.accepted
	tenant, err := w.Tenant(ctx, "probe-")
	must(t, err)
	f.probed, err = newTarget(ctx, tenant, "probe")
	must(t, err)
	objects, err := newObjects(ctx, tenant, "probe", sink)
	must(t, err)
	f.probe = objects[0]
	f.victims = victims(ctx, t, w, replicas, 2**fleetKills)
	served(ctx, t, replicas, append(f.targets, f.probed))
	return f
}

// strike makes one kill and starts the killed processes again. It leaves the end of the crash open.
func (f *fleet) strike(i int) crash {
	f.t.Helper()
	c := crash{what: killsInTurn[i%len(killsInTurn)]}
	worker, others := workerOf(f.ctx, f.t, f.fleet)
	var node *env.NATSServer
	if c.what != killWorker {
		var err error
		node, err = f.nats.Leader(f.ctx, led[f.struck%len(led)])
		must(f.t, err)
		f.struck++
	}
	before, after := f.victims[2*i], f.victims[2*i+1]
	end := func() {}
	if i%4 < 2 { // for workers and for nodes in every other kill
		end = f.busy(f.ctx, before)
	}
	waitFor(f.ctx, f.t, f.moments.moment(i))
	end()
	must(f.t, f.pushed(before, i))
	c.at = time.Now()
	if node != nil {
		must(f.t, node.Kill9())
	}
	if c.what != killNode {
		must(f.t, worker.Kill())
	}
	var starting errgroup.Group
	starting.Go(func() error { return f.pushed(after, slices.Index(f.fleet, others[0])) })
	if node != nil {
		starting.Go(func() error { return node.Again(f.ctx) })
	}
	if c.what != killNode {
		starting.Go(func() error { return worker.Restart(f.ctx) })
	}
	must(f.t, starting.Wait())
	return c
}

// works waits until every replica accepts a webhook, and until an event that is accepted now is delivered.
func (f *fleet) works(round int) {
	f.t.Helper()
	for k := range f.fleet {
		must(f.t, f.pushed(f.probed, k))
	}
	from := f.sink.Count()
	f.event(f.ctx, f.probe, round)
	message := []byte(strconv.Quote(f.probe.prefix() + strconv.Itoa(round)))
	ctx, cancel := context.WithTimeout(f.ctx, fleetRound)
	defer cancel()
	_, err := f.sink.Wait(ctx, func(all []env.Received) bool {
		return slices.ContainsFunc(all[from:], func(r env.Received) bool {
			return r.Path == f.probe.path && bytes.Contains(r.Body, message)
		})
	})
	must(f.t, err)
}

// pushed sends webhooks to the k-th replica until it accepts one.
func (f *fleet) pushed(target *target, k int) error {
	ctx, cancel := context.WithTimeout(f.ctx, fleetRound)
	defer cancel()
	return env.Eventually(ctx, func(ctx context.Context) error {
		target.mu.Lock()
		before := target.accepted
		target.mu.Unlock()
		f.webhook(ctx, target, k)
		target.mu.Lock()
		defer target.mu.Unlock()
		if target.accepted == before {
			return errors.New("the webhook was not accepted")
		}
		return nil
	})
}

// silences logs how long no delivery arrived after the kills of each kind.
func (f *fleet) silences(crashes []crash, ended time.Time) {
	f.t.Helper()
	var came []time.Time
	for _, r := range f.sink.Received() {
		came = append(came, r.Time)
	}
	slices.SortFunc(came, time.Time.Compare)
	by := map[string][]time.Duration{}
	for i, c := range crashes {
		until := ended
		if i+1 < len(crashes) {
			until = crashes[i+1].at
		}
		first, _ := slices.BinarySearchFunc(came, c.at, time.Time.Compare)
		behind, _ := slices.BinarySearchFunc(came, until, time.Time.Compare)
		longest, last := time.Duration(0), c.at
		for _, at := range append(slices.Clone(came[first:behind]), until) {
			longest, last = max(longest, at.Sub(last)), at
		}
		by[c.what] = append(by[c.what], longest)
	}
	for _, what := range []string{killWorker, killNode, killBoth} {
		slices.Sort(by[what])
		if n := len(by[what]); n > 0 {
			f.t.Logf("kills of %s: %d; without a delivery at the median for %s, at the longest for %s", what, n,
				by[what][n/2].Round(time.Millisecond), by[what][n-1].Round(time.Millisecond))
		}
	}
}

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"

	"notifier/internal/reconcile/kube"
)

// changingCluster is a cluster whose definition of the kind Widget is replaced by the next version, and which is away at times. Its answers are
// of the time of the question.
type changingCluster struct {
	mu sync.Mutex
	// version is the present one, and since its beginning.
	version int
	since   []time.Time
	// away is how questions are answered now: in time takes, unless it has an error.
	away  func(context.Context) error
	takes time.Duration
	asked int
	busy  bool
	t     *testing.T
}

func (c *changingCluster) All(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error) {
	c.mu.Lock()
	if c.busy {
		c.t.Error("two questions at a time")
	}
	c.busy = true
	c.asked++
	version, away, takes := c.version, c.away, c.takes
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.busy = false
	}()
	if away != nil {
		return nil, away(ctx)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(takes):
	}
	return []apidiscovery.APIGroupDiscovery{serving("a.example", "Widget", "widgets", fmt.Sprint("v", version))}, nil
}

// change replaces the definition.
func (c *changingCluster) change() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.since = append(c.since, time.Now())
}

// answer sets how questions are answered.
func (c *changingCluster) answer(away func(context.Context) error, takes time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away, c.takes = away, takes
}

// ended returns how long ago a version was replaced, zero for the present one.
func (c *changingCluster) ended(version int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version+1 >= len(c.since) {
		return 0
	}
	return time.Since(c.since[version+1])
}

// FuzzACatalogueFollowsTheCluster replaces the definition of a kind again and again, of an API server that is slow or away at times, while writes
// look the kind up and doubt it. Fails when a look-up waits longer than it may, when a doubt does not lead to a question that is asked after it,
// when a version is kept for longer than its age, when a known kind is not found, or when invented kinds cause too many questions.
func FuzzACatalogueFollowsTheCluster(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			cluster := &changingCluster{t: t, version: -1}
			cluster.change()
			c := kube.NewCatalogue(cluster)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _ = c.Run(ctx) })
			p := catalogueScene{t: t, catalogue: c, cluster: cluster, draw: rand.New(rand.NewPCG(seed, 1))}
			p.known = p.look() >= 0
			for i := range 8 {
				p.play()
				p.settle(i)
			}
			p.invent()
			cancel()
			wg.Wait()
		})
	})
}

type catalogueScene struct {
	t         *testing.T
	catalogue *kube.Catalogue
	cluster   *changingCluster
	draw      *rand.Rand
	known     bool
}

// look looks the kind up and returns the number of its version, or -1.
func (p catalogueScene) look() (version int) {
	began := time.Now()
	found, err := p.catalogue.Resource(p.t.Context(), "team-a", "", "Widget")
	if took := time.Since(began); took > 250*time.Millisecond {
		p.t.Errorf("a look-up takes %v", took)
	}
	if err != nil {
		if p.known || errors.Is(err, kube.ErrNotServed) {
			p.t.Errorf("the kind is not found: %v", err)
		}
		return -1
	}
	if _, err := fmt.Sscanf(found.Version, "v%d", &version); err != nil {
		p.t.Error(err)
	}
	return version
}

// play changes the cluster, looks kinds up and doubts them.
func (p catalogueScene) play() {
	for range 30 {
		switch p.draw.IntN(8) {
		case 0:
			p.cluster.change()
		case 1:
			p.catalogue.Doubt(fmt.Sprint("team-", p.draw.IntN(3)))
		case 2:
			if _, err := p.catalogue.Resource(p.t.Context(), fmt.Sprint("team-", p.draw.IntN(3)), "b.example/v1", "Invented"); err == nil {
				p.t.Error("an invented kind is found")
			}
		case 3:
			gone := func(context.Context) error { return errors.New("away") }
			p.cluster.answer([]func(context.Context) error{nil, nil, hang, gone}[p.draw.IntN(4)], time.Duration(1+p.draw.IntN(4000))*time.Millisecond)
		default:
			p.look()
		}
		<-time.After(time.Duration(1+p.draw.IntN(1<<p.draw.IntN(15))) * time.Millisecond)
	}
}

// settle lets the API server answer. Then the present version must be known: after a doubt in some seconds, or at the age of an answer.
func (p catalogueScene) settle(i int) {
	p.cluster.answer(nil, 100*time.Millisecond)
	doubt := p.draw.IntN(2) == 0
	if doubt {
		p.catalogue.Doubt(fmt.Sprint("doubts-", i))
		<-time.After(16 * time.Second) // the question under way has ended, and the pause after it
		p.look()
		<-time.After(time.Second)
	} else {
		for range 12 {
			<-time.After(time.Minute)
			p.look()
		}
	}
	if version := p.look(); p.cluster.ended(version) != 0 || version < 0 {
		p.t.Errorf("round %d, after a doubt (%v): version %d is known, which was replaced %v ago", i, doubt, version, p.cluster.ended(version))
	}
}

// invent looks up an invented kind for ten minutes.
func (p catalogueScene) invent() {
	p.cluster.mu.Lock()
	before := p.cluster.asked
	p.cluster.mu.Unlock()
	for range 600 { // ten minutes
		<-time.After(time.Second)
		_, _ = p.catalogue.Resource(p.t.Context(), "invents", "b.example/v1", "Invented")
	}
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	if n := p.cluster.asked - before; n > 6+10+1+1 {
		p.t.Errorf("%d questions for an invented kind in ten minutes", n)
	}
}

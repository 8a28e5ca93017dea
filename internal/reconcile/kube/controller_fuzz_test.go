package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/fair"
)

// mostWait is how long after a change of an object a reconcile of it begins, whatever the others do: its turn, and that of its place.
const mostWait = 10 * time.Second

// modelled is an object and what is known of its reconciles.
type modelled struct {
	// version is the present one, changed the time of the first change that no reconcile has begun after, handled the version that was reconciled.
	version, handled int
	changed          time.Time
	busy             bool
	// failures are those since the last success.
	failures int
	// initial reports that Synced waits for it.
	initial bool
}

// controllerModel is a controller, and the objects that it reconciles.
type controllerModel struct {
	*Controller[Key]
	t *testing.T

	mu      sync.Mutex
	draw    *rand.Rand
	objects map[Key]*modelled
	// failing is the share of the reconciles in a hundred that fail.
	failing int
}

func newControllerModel(t *testing.T, seed uint64) *controllerModel {
	m := &controllerModel{t: t, draw: rand.New(rand.NewPCG(seed, 1)), objects: map[Key]*modelled{}, failing: 50}
	for i := range 12 {
		k := Key{Namespace: fmt.Sprint("team-", i%3), Name: fmt.Sprint("o", i/3)}
		if i >= 9 {
			k.Name = fmt.Sprint("free-", i)
		}
		m.objects[k] = &modelled{}
	}
	m.Controller = NewController(ControllerOptions[Key]{
		Workers: 1 + m.draw.IntN(4), Each: m.draw.IntN(3), Free: isFree, Parts: Key.Parts, Reconcile: m.reconcile,
		Delay: time.Duration(m.draw.IntN(2)) * 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	return m
}

func isFree(k Key) bool { return strings.HasPrefix(k.Name, "free") }

// change changes some object.
func (m *controllerModel) change() {
	m.mu.Lock()
	k := Key{Namespace: fmt.Sprint("team-", m.draw.IntN(3)), Name: fmt.Sprint("o", m.draw.IntN(3))}
	if m.draw.IntN(4) == 0 {
		i := 9 + m.draw.IntN(3)
		k = Key{Namespace: fmt.Sprint("team-", i%3), Name: fmt.Sprint("free-", i)}
	}
	o := m.objects[k]
	o.version++
	if o.changed.IsZero() {
		o.changed = time.Now()
	}
	if m.queue == nil {
		o.initial = true
	}
	m.mu.Unlock()
	m.Enqueue(k)
}

// reconcile reconciles an object, or fails.
func (m *controllerModel) reconcile(ctx context.Context, k Key) error {
	m.mu.Lock()
	o := m.objects[k]
	if o.busy {
		m.t.Errorf("%s is reconciled by two workers", k)
	}
	o.busy, o.changed = true, time.Time{}
	version, takes := o.version, time.Duration(1+m.draw.IntN(300))*time.Millisecond
	m.mu.Unlock()
	_ = fair.Sleep(ctx, takes)
	m.mu.Lock()
	defer m.mu.Unlock()
	o.busy = false
	if m.draw.IntN(100) >= m.failing {
		o.handled, o.failures, o.initial = version, 0, false
		return nil
	}
	switch m.draw.IntN(6) {
	case 0:
		o.handled, o.failures, o.initial = version, 0, false
		return Permanent(errors.New("never"))
	case 1:
		o.handled, o.failures, o.initial = version, 0, false
		panic("poison")
	case 2:
		o.initial = false
		return Later(time.Duration(1+m.draw.IntN(5000)) * time.Millisecond)
	case 3:
		o.failures++
		o.initial = o.initial && o.failures < isolatedAttempts
		return Isolated(errors.New("this one"))
	case 4:
		o.failures++
		return apierrors.NewConflict(schema.GroupResource{Resource: "receivers"}, k.Name, errors.New("changed"))
	default:
		o.failures++
		return ErrNotYet
	}
}

// check compares the controller with the objects, while no goroutine runs.
func (m *controllerModel) check() {
	m.t.Helper()
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	working, bounded, waits := 0, map[string]int{}, false
	for k, o := range m.objects {
		waits = waits || o.initial
		if o.busy {
			working++
			if !isFree(k) {
				bounded[k.Namespace]++
			}
		}
		if !o.changed.IsZero() && time.Since(o.changed) > mostWait {
			m.t.Errorf("%s was changed %v ago, and no reconcile has begun since", k, time.Since(o.changed))
		}
		if n := m.queue.NumRequeues(k); n != o.failures {
			m.t.Errorf("%s has failed %d times, want %d", k, n, o.failures)
		}
	}
	select {
	case <-m.Synced():
		if waits {
			m.t.Error("synced although a key waits")
		}
	default:
		if !waits {
			m.t.Error("not synced although no key waits")
		}
	}
	if m.queue.Len() > 0 && working < m.options.Workers {
		m.t.Errorf("%d keys wait for %d workers, of which %d work", m.queue.Len(), m.options.Workers, working)
	}
	if m.options.Each > 0 {
		m.checkPlaces(bounded)
	}
}

// checkPlaces compares the places with the keys at work, by namespace.
func (m *controllerModel) checkPlaces(working map[string]int) {
	m.t.Helper()
	m.places.mu.Lock()
	defer m.places.mu.Unlock()
	waiting, promised, spaces := 0, map[string]int{}, map[string]bool{}
	for k, has := range m.places.held {
		if has {
			promised[k.Namespace]++
		}
		spaces[k.Namespace] = true
	}
	for namespace := range working {
		spaces[namespace] = true
	}
	for namespace, taken := range m.places.namespaces {
		waiting += len(taken.waiting)
		for _, k := range taken.waiting {
			if has, held := m.places.held[k]; !held || has || k.Namespace != namespace {
				m.t.Errorf("%s waits in the line of %s, held %v with a place %v", k, namespace, held, has)
			}
		}
		if want := working[namespace] + promised[namespace]; taken.n != want || taken.n > m.options.Each {
			m.t.Errorf("%s has %d places of %d, want %d", namespace, taken.n, m.options.Each, want)
		}
		if len(taken.waiting) > 0 && taken.n < m.options.Each {
			m.t.Errorf("%d keys of %s wait beside a free place", len(taken.waiting), namespace)
		}
	}
	for _, n := range promised {
		waiting += n
	}
	if len(m.places.namespaces) != len(spaces) || waiting != len(m.places.held) {
		m.t.Errorf("%d namespaces have places, want %d; %d keys are held, want %d", len(m.places.namespaces), len(spaces), len(m.places.held), waiting)
	}
}

// FuzzT4EachChangeIsReconciled changes objects of three namespaces while some reconciles fail in each possible way. Fails when two workers have
// one key, when a namespace has more places than it may or one too few, when a change waits for longer than its turn, when a failed key is not
// tried again, when Synced closes too early or too late, or when something is remembered of keys that are done.
func FuzzT4EachChangeIsReconciled(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			m := newControllerModel(t, seed)
			for range m.draw.IntN(10) {
				m.change()
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { m.Run(ctx) })
			m.check()
			for range 200 {
				m.step()
				m.check()
			}
			m.mu.Lock()
			m.failing = 0
			m.mu.Unlock()
			<-time.After(time.Minute + mostWait)
			m.check()
			for k, o := range m.objects {
				if o.handled != o.version {
					t.Errorf("version %d of %s is reconciled, want %d", o.handled, k, o.version)
				}
			}
			if len(m.places.held) > 0 || len(m.places.namespaces) > 0 || len(m.initial) > 0 || m.Len() > 0 {
				t.Errorf("something is remembered: %v, %v, %v", m.places.held, m.places.namespaces, m.initial)
			}
			cancel()
			wg.Wait()
		})
	})
}

// step changes objects, or how many reconciles fail, and lets some time pass.
func (m *controllerModel) step() {
	if m.below(10) == 0 {
		share := []int{0, 20, 50, 90}[m.below(4)]
		m.mu.Lock()
		m.failing = share
		m.mu.Unlock()
	}
	for range m.below(4) {
		m.change()
	}
	if m.below(4) > 0 {
		<-time.After(time.Duration(1+m.below(1<<m.below(11))) * time.Millisecond)
	}
}

// below draws a number less than n, beside the workers.
func (m *controllerModel) below(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draw.IntN(n)
}

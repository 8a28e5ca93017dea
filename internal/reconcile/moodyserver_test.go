package reconcile

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// moody is an API server that is slow, fails, and sees conflicts, until it is cured.
type moody struct {
	w     *world
	most  int // Receivers, and Alerts, of a namespace that are served; zero for all
	mu    sync.Mutex
	rng   *rand.Rand
	cured bool
	// version is the newest resource version. writes counts the written statuses.
	version, writes int
	secrets         map[kube.Key]*corev1.Secret
	history         []watch.Event
	changed         chan struct{}
	// cut closes when the watches of Secrets break. open counts those that are not stopped.
	cut      chan struct{}
	open     map[kube.Key]int
	registry *prometheus.Registry
	informed informed
	// lacks has the kinds whose definitions lack the status, or its field problem.
	lacks map[string]string
	// defined is when the definition of Alerts was last replaced.
	defined time.Time
	// down is the error of each read of a Secret, nil if they are as always.
	down error
}

func newMoody(seed uint64) *moody {
	return &moody{
		rng:     rand.New(rand.NewPCG(seed, 2)),
		most:    int(seed % 2),
		secrets: map[kube.Key]*corev1.Secret{},
	}
}

// fault waits, mostly for a short time, and returns an error now and then.
func (m *moody) fault(ctx context.Context) error {
	m.mu.Lock()
	d := time.Duration(m.rng.Int64N(int64([]time.Duration{time.Millisecond, 300 * time.Millisecond, 6 * time.Second}[m.rng.IntN(3)])))
	n := m.rng.IntN(12)
	if m.cured {
		d, n = time.Millisecond, 9
	}
	m.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
	}
	switch n {
	case 0:
		return errors.New("connection refused")
	case 1:
		return apierrors.NewInternalError(errors.New("etcd"))
	case 2:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "thing", errors.New("no"))
	}
	return nil
}

func (m *moody) next() string {
	m.version++
	return strconv.Itoa(m.version)
}

func (m *moody) Get(ctx context.Context, k kube.Key, _ string) (*corev1.Secret, error) {
	if err := m.fault(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	s, down := m.secrets[k], m.down
	m.mu.Unlock()
	if down != nil {
		return nil, down
	}
	if err := m.fault(ctx); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), k.Name)
	}
	return s.DeepCopy(), nil
}

func (m *moody) Watch(ctx context.Context, k kube.Key, version string, _ time.Duration) (secrets.Watch, error) {
	if err := m.fault(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	m.open[k]++
	w := &secretWatch{m: m, ctx: ctx, key: k, cut: m.cut, stop: sync.OnceFunc(func() {
		stop()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.open[k]--
	})}
	if w.after, _ = strconv.Atoi(version); w.after == 0 {
		w.after = m.version
		w.first = m.secrets[k]
	}
	return w, nil
}

// secretWatch is a watch of one Secret.
type secretWatch struct {
	m     *moody
	ctx   context.Context
	stop  func()
	key   kube.Key
	first *corev1.Secret
	after int
	cut   chan struct{}
}

func (w *secretWatch) Stop() { w.stop() }

func (w *secretWatch) Next() (watch.Event, error) {
	if s := w.first; s != nil {
		w.first = nil
		return watch.Event{Type: watch.Added, Object: s.DeepCopy()}, nil
	}
	for {
		w.m.mu.Lock()
		for _, e := range w.m.history {
			s := e.Object.(*corev1.Secret)
			if at, _ := strconv.Atoi(s.ResourceVersion); at > w.after && s.Namespace == w.key.Namespace && s.Name == w.key.Name {
				w.after = at
				w.m.mu.Unlock()
				return watch.Event{Type: e.Type, Object: s.DeepCopy()}, nil
			}
		}
		changed := w.m.changed
		w.m.mu.Unlock()
		select {
		case <-w.ctx.Done():
			return watch.Event{}, io.EOF
		case <-w.cut:
			return watch.Event{}, io.EOF
		case <-changed:
		}
	}
}

// putSecret makes, changes or, without data, deletes a Secret.
func (m *moody) putSecret(k kube.Key, data map[string][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.secrets[k]
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, ResourceVersion: m.next()}, Data: data}
	kind := watch.Modified
	switch {
	case data == nil && before == nil:
		return
	case data == nil:
		kind = watch.Deleted
		delete(m.secrets, k)
	default:
		if before == nil {
			kind = watch.Added
		}
		m.secrets[k] = s
	}
	m.history = append(m.history, watch.Event{Type: kind, Object: s})
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *moody) breakWatches() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.cut)
	m.cut = make(chan struct{})
}

// put makes or changes an object, or deletes it if o is nil, as a user.
func (m *moody) put(kind, namespace, name string, o kube.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, tracker := resources[kind], m.w.cluster.Tracker
	before, err := tracker.Get(r, namespace, name)
	switch {
	case o == nil || err == nil && before.(kube.Object).GetDeletionTimestamp() != nil:
		if err == nil {
			m.must(tracker.Delete(r, namespace, name))
		}
		return
	case err == nil:
		is := before.(kube.Object)
		o.SetUID(is.GetUID())
		o.SetGeneration(is.GetGeneration() + 1)
		o.SetCreationTimestamp(is.GetCreationTimestamp())
		o.SetResourceVersion(m.next())
		copyStatus(o, is)
		m.must(tracker.Update(r, o, namespace))
		return
	}
	m.complete(o)
	m.must(tracker.Create(r, o, namespace))
}

// complete gives a new object its UID, its version and its time. The caller has the lock.
func (m *moody) complete(o kube.Object) {
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	o.SetResourceVersion(m.next())
	o.SetUID(types.UID("uid-" + o.GetResourceVersion()))
}

func (m *moody) must(err error) {
	if err != nil {
		m.w.t.Error(err)
	}
}

func copyStatus(to, from kube.Object) {
	switch to := to.(type) {
	case *v1.Receiver:
		to.Status = from.(*v1.Receiver).Status
	case *v1.Alert:
		to.Status = from.(*v1.Alert).Status
	case *v1.Provider:
		to.Status = from.(*v1.Provider).Status
	}
}

// writing is a client of one kind whose statuses are written through a moody API server.
type writing[T kube.Object] struct {
	kube.Client[T]
	m         *moody
	namespace string
	kind      string
}

func through[T kube.Object](m *moody, kind string, r *kube.Resource[T]) {
	in := r.In
	r.In = func(namespace string) kube.Client[T] { return writing[T]{in(namespace), m, namespace, kind} }
}

func (c writing[T]) UpdateStatus(ctx context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	if err := c.m.fault(ctx); err != nil {
		return o, err
	}
	kept, err := c.store(o)
	if err != nil {
		return o, err
	}
	return kept, c.m.fault(ctx)
}

func (c writing[T]) store(o T) (T, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	r, tracker := resources[c.kind], c.m.w.cluster.Tracker
	before, err := tracker.Get(r, c.namespace, o.GetName())
	if err != nil {
		return o, err
	}
	is := before.(T)
	if c.m.lacks[c.kind] == "status" {
		return o, apierrors.NewNotFound(r.GroupResource(), o.GetName())
	}
	if is.GetResourceVersion() != o.GetResourceVersion() {
		return o, apierrors.NewConflict(r.GroupResource(), o.GetName(), errors.New("changed"))
	}
	copyStatus(is, o)
	if c.m.lacks[c.kind] == "problem" {
		*is.Problem() = ""
	}
	is.SetResourceVersion(c.m.next())
	c.m.writes++
	for _, condition := range *is.Conditions() {
		if condition.ObservedGeneration > is.GetGeneration() {
			c.m.w.t.Errorf("%s of %s has a generation that never was", condition.Type, is.GetName())
		}
	}
	return is.DeepCopyObject().(T), tracker.Update(r, is, c.namespace)
}

// settings returns a world over the API server.
func (m *moody) settings() settings {
	return settings{follower: true, change: func(o *Options) {
		m.open, m.registry = map[kube.Key]int{}, prometheus.NewRegistry()
		o.Registerer = m.registry
		o.Clients.Secrets, o.MaxReceiversPerNamespace, o.MaxAlertsPerNamespace = m, m.most, m.most
		through(m, v1.ReceiverKind, &o.Clients.Receivers)
		through(m, v1.AlertKind, &o.Clients.Alerts)
		through(m, v1.ProviderKind, &o.Clients.Providers)
	}, prepare: func(w *world) {
		m.w, m.informed, m.lacks, m.defined = w, informed{}, map[string]string{}, time.Time{}
		m.informed.watches(w)
		m.changed, m.cut = make(chan struct{}), make(chan struct{}) // of the bubble
	}}
}

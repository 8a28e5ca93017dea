package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/reconcile/kube"
)

// wild is the first of the seeds whose API server ends watches and leaves out changes, whose definitions of the kinds lack fields for a while,
// whose namespaces use up their time of compiling, and whose owners do all that busy owners do and write more fields.
const wild = 1 << 21

// informed are the watches of the three kinds.
type informed struct {
	mu    sync.Mutex
	blind bool
	all   []*tap
}

// tap passes on the events of a watch.
type tap struct {
	watch.Interface
	of     *informed
	events chan watch.Event
	// blind reports that the watch has left out a change, and sends no other.
	blind bool
	once  sync.Once
	ended chan struct{}
	// expired closes when the watch ends as it is too old.
	expired chan struct{}
}

func (p *tap) ResultChan() <-chan watch.Event { return p.events }

func (p *tap) Stop() {
	p.once.Do(func() {
		p.Interface.Stop()
		close(p.ended)
	})
}

// run passes on events until the watch ends.
func (p *tap) run() {
	defer close(p.events)
	for {
		select {
		case <-p.ended:
			return
		case <-p.expired:
			expired := apierrors.NewResourceExpired("too old").Status()
			select {
			case p.events <- watch.Event{Type: watch.Error, Object: &expired}:
			case <-p.ended:
			}
			return
		case e, ok := <-p.Interface.ResultChan():
			if !ok {
				return
			}
			p.of.mu.Lock()
			p.blind = p.blind || p.of.blind
			p.of.mu.Unlock()
			if p.blind {
				continue
			}
			select {
			case p.events <- e:
			case <-p.ended:
				return
			}
		}
	}
}

// watches has the watches of a cluster end at will.
func (i *informed) watches(w *world) {
	w.cluster.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		is, err := w.cluster.Tracker.Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		p := &tap{Interface: is, of: i, events: make(chan watch.Event), ended: make(chan struct{}), expired: make(chan struct{})}
		go p.run()
		i.mu.Lock()
		defer i.mu.Unlock()
		i.all = append(i.all, p)
		return true, p, nil
	})
}

// see begins or ends the time in which changes are left out. Its end ends all watches.
func (i *informed) see(sees bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.blind = !sees; i.blind {
		return
	}
	for _, p := range i.all {
		close(p.expired)
	}
	i.all = nil
}

// embellish gives an object annotations, labels and more fields.
func (m *moody) embellish(rng *rand.Rand, o kube.Object) {
	filter := []string{"(", "req.a == 1", "true", "req.b.c == 'd'"}[rng.IntN(4)]
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if rng.IntN(4) == 0 {
		annotations[v1.ServiceAccountAnnotation] = []string{"a", "b", ""}[rng.IntN(3)]
	}
	unreadable := rng.IntN(12) == 0
	if unreadable {
		annotations[kube.Undecodable] = "true"
	}
	o.SetAnnotations(annotations)
	o.SetLabels(map[string]string{"l": fmt.Sprint(rng.IntN(3))})
	switch o := o.(type) {
	case *v1.Receiver:
		o.Spec.Suspend = rng.IntN(3) == 0
		if rng.IntN(3) == 0 {
			o.Spec.ResourceFilter = filter
		}
		if rng.IntN(4) == 0 {
			o.Spec.Resources = append(o.Spec.Resources, o.Spec.Resources[0])
			o.Spec.Resources[1].Name, o.Spec.Resources[1].Filter = "other", filter
		}
		if rng.IntN(4) == 0 {
			o.Spec.ServiceAccountName = fmt.Sprint("sa-", rng.IntN(2))
		}
		if unreadable {
			o.Spec = v1.ReceiverSpec{}
		}
	case *v1.Provider:
		o.Spec.Suspend = rng.IntN(3) == 0
		if rng.IntN(4) == 0 {
			o.Spec.Address = ""
		}
		if unreadable {
			o.Spec = v1.ProviderSpec{}
		}
	case *v1.Alert:
		if unreadable {
			o.Spec = v1.AlertSpec{}
		}
	}
}

// define replaces the definition of a kind.
func (m *moody) define(rng *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kind := []string{v1.ReceiverKind, v1.ProviderKind, v1.AlertKind}[rng.IntN(3)]
	m.lacks[kind] = []string{"", "status", "problem"}[rng.IntN(3)]
	if kind == v1.AlertKind {
		m.defined = time.Now()
	}
}

// owing uses up a namespace's time of compiling.
func (m *moody) owing(ctx context.Context, rng *rand.Rand, namespace string) {
	for range 1 + rng.IntN(8) {
		_, err := m.w.compiling.Compile(ctx, namespace, func() { <-time.After(time.Second) })
		m.must(err)
	}
}

// obstruct changes objects while no Secret can be read, or no expression compiled, and compares what is served with them.
func (m *moody) obstruct(rng *rand.Rand) {
	m.informed.see(true)
	pass(2 * time.Minute)
	m.mu.Lock()
	m.cured, m.down = true, []error{
		nil, apierrors.NewServiceUnavailable("starting"), apierrors.NewForbidden(corev1.Resource("secrets"), "any", errors.New("no")),
	}[rng.IntN(3)]
	m.mu.Unlock()
	for _, namespace := range []string{"team-a", "team-b"} {
		if rng.IntN(2) == 0 {
			m.w.owe(namespace)
		}
	}
	began := time.Now().Truncate(time.Second)
	m.w.events.take()
	for range 1 + rng.IntN(12) {
		<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond)
		namespace, name := []string{"team-a", "team-b"}[rng.IntN(2)], fmt.Sprint("x", rng.IntN(2))
		kind := []string{v1.ReceiverKind, v1.ProviderKind, v1.AlertKind}[rng.IntN(3)]
		o := anyObject(rng, kind, name)
		o.SetNamespace(namespace)
		m.embellish(rng, o)
		switch rng.IntN(4) {
		case 0:
			m.put(kind, namespace, name, nil)
			m.put(kind, namespace, name, o)
		case 1:
			m.replace(kind, o)
		default:
			m.put(kind, namespace, name, o)
		}
	}
	pass(20 * time.Second)
	m.current()
	told(m, m.w.receivers, began)
	told(m, m.w.alerts, began)
	told(m, m.w.providers, began)
	m.mu.Lock()
	m.cured, m.down = false, nil
	m.mu.Unlock()
}

// replace makes an object in place of another, whose deletion no informer sees, as after an outage.
func (m *moody) replace(kind string, o kube.Object) {
	r, tracker := resources[kind], m.w.cluster.Tracker
	before, err := tracker.Get(r, o.GetNamespace(), o.GetName())
	if err != nil || before.(kube.Object).GetDeletionTimestamp() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complete(o)
	m.must(tracker.Update(r, o, o.GetNamespace()))
}

// current fails the test unless all that is served is of the present objects, and nothing of suspended ones, once each change was tried.
func (m *moody) current() {
	for _, namespace := range []string{"team-a", "team-b"} {
		for i := range 3 {
			k := kube.Key{Namespace: namespace, Name: fmt.Sprint("x", i)}
			m.currentReceiver(k)
			m.currentProvider(k)
			m.currentAlert(k)
		}
	}
}

// told fails the test unless the owners of objects without status, made since a time, were told of their faults.
func told[T kube.Object](m *moody, k *kindOf[T], since time.Time) {
	if m.lacks[k.name] != "status" {
		return
	}
	events := strings.Join(m.w.events.events, "\n")
	for _, o := range k.objects.All() {
		v, ok := k.verdicts.on(o)
		if ok = ok && v.generation == o.GetGeneration(); ok && k.refine != nil {
			v, ok = k.refine(o, v)
		}
		of := fmt.Sprintf("%s %s %s Warning %s", k.name, kube.KeyOf(o), o.GetUID(), v.event)
		if ok && !v.ready && !o.GetCreationTimestamp().Time.Before(since) && o.GetDeletionTimestamp() == nil && !strings.Contains(events, of) {
			m.w.t.Errorf("no Event is %s", of)
		}
	}
}

func (m *moody) currentReceiver(k kube.Key) {
	r, err := m.w.cluster.Tracker.Get(resources[v1.ReceiverKind], k.Namespace, k.Name)
	uid, suspended := "", true
	if err == nil && r.(*v1.Receiver).DeletionTimestamp == nil {
		uid, suspended = string(r.(*v1.Receiver).UID), r.(*v1.Receiver).Spec.Suspend
	}
	for _, h := range m.w.hooks.all(k.String()) {
		if h.UID != uid || suspended && !h.Suspended {
			m.w.t.Errorf("hook of %s is of %s, want %q; suspended %t, want %t", k, h.UID, uid, h.Suspended, suspended)
		}
	}
	m.w.subscriptions.mu.Lock()
	defer m.w.subscriptions.mu.Unlock()
	if s := m.w.subscriptions.served[k.String()]; s != nil && (s.UID != uid || suspended && !s.Suspended) {
		m.w.t.Errorf("subscription of %s is of %s, want %q; suspended %t, want %t", k, s.UID, uid, s.Suspended, suspended)
	}
	if live, ok := m.w.Receivers().Live(k.Namespace, k.Name); ok && live.UID != uid {
		m.w.t.Errorf("Receiver %s lives as %s, want %q", k, live.UID, uid)
	}
}

func (m *moody) currentProvider(k kube.Key) {
	o, err := m.w.cluster.Tracker.Get(resources[v1.ProviderKind], k.Namespace, k.Name)
	d := m.w.options.Destinations.Get(k.Namespace, k.Name)
	if err != nil || o.(*v1.Provider).DeletionTimestamp != nil {
		if d != nil {
			m.w.t.Errorf("Provider %s is gone and has a destination", k)
		}
		return
	}
	p := o.(*v1.Provider)
	m.toldOf(p, d)
	if d == nil || d.UID != string(p.UID) || d.Suspended != p.Spec.Suspend || d.Unsupported != (p.Spec.Type == "unheard-of") {
		m.w.t.Errorf("destination of %s: %+v, want that of %s, %+v", k, d, p.UID, p.Spec)
	}
}

// toldOf fails the test unless the Alerts of a Provider say truly whether its events are kept.
func (m *moody) toldOf(p *v1.Provider, d *alerts.Destination) {
	_, decided := m.w.providers.verdicts.on(p)
	if !decided || m.lacks[v1.AlertKind] != "" || time.Since(m.defined) < 15*time.Minute {
		return // its Alerts wait with it, or for the next try of their status
	}
	for i := range 2 {
		o, err := m.w.cluster.Tracker.Get(resources[v1.AlertKind], p.Namespace, fmt.Sprint("x", i))
		if err != nil || o.(*v1.Alert).Spec.ProviderRef.Name != p.Name || o.(*v1.Alert).DeletionTimestamp != nil || d == nil {
			continue
		}
		a := o.(*v1.Alert)
		c := meta.FindStatusCondition(a.Status.Conditions, v1.ServingCondition)
		if c == nil || c.ObservedGeneration != a.Generation {
			continue
		}
		dropped := d.Suspended || d.Unsupported
		if strings.Contains(c.Message, "events are kept") && dropped || strings.Contains(c.Message, "not kept") && !dropped ||
			c.Status == metav1.ConditionTrue && dropped {
			m.w.t.Errorf("Alert %s/%s says %s %s %q, of %+v", a.Namespace, a.Name, c.Status, c.Reason, c.Message, d)
		}
	}
}

func (m *moody) currentAlert(k kube.Key) {
	o, err := m.w.cluster.Tracker.Get(resources[v1.AlertKind], k.Namespace, k.Name)
	a, ok := m.w.options.Alerts.Lookup(k.Namespace, k.Name)
	exists := err == nil && o.(*v1.Alert).DeletionTimestamp == nil
	switch {
	case ok != exists:
		m.w.t.Errorf("Alert %s exists %t, is served %t", k, exists, ok)
	case ok && a.UID != string(o.(*v1.Alert).UID):
		m.w.t.Errorf("Alert %s is served as %s", k, a.UID)
	}
}

package reconcile

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// FuzzWhatIsServedAndSaidIsWhatAFreshStartWouldServeAndSay plays objects and Secrets that are made, changed, deleted and made again, while
// reads, watches and writes fail or come late, reports about Receivers are made and lost, and terms of the worker end. In the end all is as if
// the process had just started, and nothing is written any more. All that is kept is of objects that exist, and nothing is kept when all are
// deleted. Fails when a Provider's verdict does not enqueue the statuses of its Alerts, or when something is served as a former object, or as
// the object was before or during a suspension, because it cannot be compiled now, or when an owner is told of a fault neither by a status nor
// by an Event.
func FuzzWhatIsServedAndSaidIsWhatAFreshStartWouldServeAndSay(f *testing.F) {
	for _, seed := range []uint64{5, 11, 42, 59} {
		f.Add(seed)
		f.Add(busy + seed)
	}
	for _, seed := range []uint64{1, 4, 50, 55} {
		f.Add(wild + seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := newMoody(seed)
		var restless, fresh []string
		var reports map[string][]byte
		var objects []runtime.Object
		play(t, m.settings(), func(*world) {
			stop := m.play(seed)
			restless, objects = m.served()
			reports = maps.Clone(m.w.feed.values)
			m.consistent()
			m.deleteAll()
			stop()
		})
		s := m.settings()
		for _, o := range objects {
			switch o := o.(type) {
			case *v1.Receiver:
				o.Status = v1.ReceiverStatus{}
			case *v1.Alert:
				o.Status = v1.AlertStatus{}
			case *v1.Provider:
				o.Status = v1.ProviderStatus{}
			}
		}
		s.objects = objects
		play(t, s, func(w *world) {
			w.feed.values = reports
			stop := m.lead()
			pass(time.Hour)
			stop()
			fresh, _ = m.served()
		})
		for i := range max(len(restless), len(fresh)) {
			if i >= len(restless) || i >= len(fresh) || restless[i] != fresh[i] {
				t.Fatalf("is:\n%s\nwant:\n%s", strings.Join(restless[min(i, len(restless)):], "\n"), strings.Join(fresh[min(i, len(fresh)):], "\n"))
			}
		}
	})
}

// busy is the first of the seeds whose owners do all that busy has.
const busy = 1 << 20

// lead runs a term until the returned function is called.
func (m *moody) lead() (stop func()) {
	ctx, cancel := context.WithCancel(m.w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.must(m.w.Lead(ctx)) })
	return func() { cancel(); wg.Wait() }
}

func (m *moody) play(seed uint64) (stop func()) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var more *rand.Rand
	if seed >= busy {
		more = rand.New(rand.NewPCG(seed, 3))
	}
	reports := rand.New(rand.NewPCG(seed, 4))
	stop = m.lead()
	for i := range 150 {
		<-time.After(time.Duration(rng.Int64N(int64([]time.Duration{5 * time.Millisecond, 300 * time.Millisecond, 8 * time.Second}[rng.IntN(3)]))))
		namespace, name := []string{"team-a", "team-b"}[rng.IntN(2)], fmt.Sprint("x", rng.IntN(2))
		switch n := rng.IntN(20); {
		case n == 0:
			stop()
			stop = m.lead()
		case n == 1:
			m.breakWatches()
		case seed >= wild && more.IntN(12) == 0:
			m.owing(m.w.t.Context(), more, namespace)
		case seed >= wild && more.IntN(12) == 0:
			m.informed.see(more.IntN(2) == 0)
		case seed >= wild && more.IntN(12) == 0:
			m.define(more)
		case n < 7:
			m.changeSecret(rng, kube.Key{Namespace: namespace, Name: fmt.Sprint("s", rng.IntN(2))}, i)
		case more != nil && more.IntN(6) == 0:
			m.busy(more, namespace, name, i)
		default:
			kind := []string{v1.ReceiverKind, v1.ProviderKind, v1.AlertKind}[rng.IntN(3)]
			var o kube.Object
			if rng.IntN(4) > 0 {
				o = anyObject(rng, kind, name)
				o.SetNamespace(namespace)
				if rng.IntN(3) == 0 {
					o.SetAnnotations(map[string]string{v1.ReconcileRequestAnnotation: strconv.Itoa(i)})
				}
				if seed >= wild {
					m.embellish(more, o)
				}
			}
			m.put(kind, namespace, name, o)
		}
		m.inOrder()
		m.report(reports, kube.Key{Namespace: namespace, Name: name})
		if seed >= wild && i%15 == 14 {
			m.obstruct(more)
		}
	}
	m.mu.Lock()
	m.cured = true
	clear(m.lacks)
	m.mu.Unlock()
	pass(10 * time.Minute)
	if seed >= wild {
		pass(15 * time.Minute) // the statuses that a definition lacked are tried again
	}
	writes := m.writes
	pass(time.Hour)
	if m.writes != writes {
		m.w.t.Errorf("%d statuses were written in the last hour, in which nothing changed", m.writes-writes)
	}
	return stop
}

// busy does what owners do less often: to delete an object and make it again at once, or all of a namespace, to name other Secrets, and to have
// something delay a deletion.
func (m *moody) busy(rng *rand.Rand, namespace, name string, i int) {
	kind := []string{v1.ReceiverKind, v1.ProviderKind, v1.AlertKind}[rng.IntN(3)]
	o := anyObject(rng, kind, name)
	o.SetNamespace(namespace)
	switch rng.IntN(4) {
	case 0:
		for kind := range resources {
			for _, k := range m.w.kinds[kind].keysIn(namespace) {
				m.put(kind, namespace, k.Name, nil)
			}
		}
	case 1:
		m.put(kind, namespace, name, nil)
		m.put(kind, namespace, name, o)
	case 2:
		m.put(kind, namespace, name, o)
		o = o.DeepCopyObject().(kube.Object)
		now := metav1.Now()
		o.SetDeletionTimestamp(&now)
		o.SetFinalizers([]string{"example.com/other"})
		m.put(kind, namespace, name, o)
	case 3:
		p := anyObject(rng, v1.ProviderKind, name).(*v1.Provider)
		p.Namespace = namespace
		p.Spec.ProxySecretRef = &v1.LocalObjectReference{Name: fmt.Sprint("s", rng.IntN(2))}
		p.Spec.CertSecretRef = &v1.LocalObjectReference{Name: fmt.Sprint("s", rng.IntN(2))}
		m.put(v1.ProviderKind, namespace, name, p)
	}
}

// changeSecret gives a Secret values that no Secret had before, or deletes it.
func (m *moody) changeSecret(rng *rand.Rand, k kube.Key, i int) {
	data := map[string][]byte{
		"token": fmt.Append(nil, k.Namespace, "-", i), "address": fmt.Append(nil, "https://example.com/", k.Namespace, "/", i),
	}
	switch rng.IntN(8) {
	case 0, 1:
		data = nil
	case 2:
		delete(data, "token")
		data["address"] = fmt.Append(nil, "ftp://", i)
	}
	m.putSecret(k, data)
}

func anyObject(rng *rand.Rand, kind, name string) kube.Object {
	secret := &v1.LocalObjectReference{Name: fmt.Sprint("s", rng.IntN(2))}
	suspend := rng.IntN(6) == 0
	switch kind {
	case v1.ReceiverKind:
		return newReceiver(name, func(r *v1.Receiver) {
			r.Spec.SecretRef, r.Spec.Suspend = secret, suspend
			r.Spec.Resources[0].Name = fmt.Sprint("app", rng.IntN(2))
			switch rng.IntN(5) {
			case 0:
				r.Spec.Type, r.Spec.SecretRef = v1.EventReceiver, nil
				r.Spec.EventSources = []v1.CrossNamespaceObjectReference{{Kind: "Kustomization", Name: "*"}}
			case 1:
				r.Spec.Resources[0].Namespace = "elsewhere"
			case 2:
				r.Spec.Type, r.Spec.SecretRef, r.Spec.OIDCProviders = v1.GenericOIDCReceiver, nil, oidcReceiver().Spec.OIDCProviders
				r.Spec.OIDCProviders[0].Validations[0].Expression = anyExpression(rng)
			}
		})
	case v1.ProviderKind:
		return newProvider(name, func(p *v1.Provider) {
			p.Spec.Suspend = suspend
			if rng.IntN(4) > 0 {
				p.Spec.SecretRef = secret
			}
			if rng.IntN(6) == 0 {
				p.Spec.Type = "unheard-of"
			}
			if rng.IntN(3) == 0 {
				p.Spec.CommitStatusExpr = anyExpression(rng)
			}
		})
	}
	return newAlert(name, func(a *v1.Alert) {
		a.Spec.Suspend = suspend
		a.Spec.ProviderRef.Name = fmt.Sprint("x", rng.IntN(3))
		if rng.IntN(3) == 0 {
			a.Spec.InclusionList = []string{[]string{"(", "ok"}[rng.IntN(2)]}
		}
	})
}

func anyExpression(rng *rand.Rand) string { return []string{"(", "'a' + 'b'", "true"}[rng.IntN(3)] }

// served describes what is compiled and what the statuses say, and returns the objects.
func (m *moody) served() (lines []string, objects []runtime.Object) {
	synctest.Wait()
	for key, hooks := range m.w.hooks.hooks {
		for _, h := range hooks {
			lines = append(lines, fmt.Sprint("hook ", key, h.UID, h.Path, h.Targets, h.Suspended, h.Previous))
		}
	}
	for key, paths := range m.w.hooks.awaited {
		if lines = append(lines, fmt.Sprint("awaited ", key, paths)); m.w.hooks.hooks[key] != nil {
			m.w.t.Errorf("%s is served and awaited", key)
		}
	}
	for key, s := range m.w.subscriptions.served {
		lines = append(lines, fmt.Sprint("subscription ", key, s.UID, s.Generation, s.Targets, s.Suspended))
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		for _, r := range m.w.Receivers().InNamespace(namespace) {
			lines = append(lines, fmt.Sprint("live ", namespace, r.Name, r.UID, r.Generation, r.ServiceAccount, r.Targets))
		}
		matched, _ := m.w.options.Alerts.Select(event.ObjectReference{Kind: "Kustomization", Namespace: namespace, Name: "app"}, nil, nil)
		for _, a := range matched {
			lines = append(lines, fmt.Sprint("matched ", namespace, a.Name, a.UID, a.Provider))
		}
		for i := range 3 {
			name := fmt.Sprint("x", i)
			if d := m.w.options.Destinations.Get(namespace, name); d != nil {
				lines = append(lines, fmt.Sprint("destination ", namespace, name, d.UID, d.Version, d.NotReady, d.Suspended, d.Unsupported, d.Sender != nil))
			}
			if a, ok := m.w.options.Alerts.Lookup(namespace, name); ok {
				lines = append(lines, fmt.Sprint("alert ", namespace, name, a.UID, a.Provider))
			}
			for kind, r := range resources {
				o, err := m.w.cluster.Tracker.Get(r, namespace, name)
				if err != nil {
					continue
				}
				objects = append(objects, o)
				if o.(kube.Object).GetDeletionTimestamp() == nil { // else its status stays as it was
					lines = append(lines, statusLine(kind, o.(kube.Object)))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines, objects
}

func statusLine(kind string, o kube.Object) string {
	var said []string
	for _, c := range *o.Conditions() {
		if reported := c.Type == v1.WriteDeniedCondition || c.Type == v1.LoopDetectedCondition; reported && c.Status == metav1.ConditionFalse {
			continue // it ended, and a fresh start does not know that it was
		}
		said = append(said, fmt.Sprint(c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration))
	}
	slices.Sort(said)
	line := fmt.Sprint("status ", kind, o.GetNamespace(), o.GetName(), o.GetUID(), o.GetGeneration(), said, *o.Problem())
	if r, ok := o.(*v1.Receiver); ok {
		line += fmt.Sprint(r.Status.ObservedGeneration, r.Status.WebhookPath)
	}
	return line
}

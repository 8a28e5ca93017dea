package reconcile

import (
	"fmt"
	"maps"
	"slices"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// inOrder fails the test unless the ages of Receivers are in order. It may be called at any time.
func (m *moody) inOrder() {
	s := m.w.Reconciler.live.(*receiverController).ages
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, all := range s.namespaces {
		if len(all) == 0 || !slices.IsSortedFunc(all, age.compare) || len(slices.Compact(slices.Clone(all))) < len(all) {
			m.w.t.Errorf("the ages of the Receivers of %s are %v", namespace, all)
		}
	}
}

// ofAges fails the test unless the ages of Receivers are those of the present ones.
func (m *moody) ofAges() {
	s := m.w.Reconciler.live.(*receiverController).ages
	if s == nil {
		return
	}
	want := map[string]ageOrder{}
	for _, r := range m.w.receivers.objects.All() {
		if r.DeletionTimestamp == nil {
			want[r.Namespace] = append(want[r.Namespace], ageOf(r))
		}
	}
	for _, all := range want {
		slices.SortFunc(all, age.compare)
	}
	if !maps.EqualFunc(want, s.namespaces, slices.Equal) {
		m.w.t.Errorf("the ages of Receivers are %v, want %v", s.namespaces, want)
	}
}

// consistent fails the test unless all that is kept of objects, once nothing changes, is of present ones.
func (m *moody) consistent() {
	m.inOrder()
	receivers := m.w.Reconciler.live.(*receiverController)
	named := map[kube.Key]bool{}
	for _, r := range m.w.receivers.objects.All() {
		var plan receiverPlan
		if f := checkSecretRef(r, &plan); f == nil && plan.secretName != "" {
			named[kube.Key{Namespace: r.Namespace, Name: plan.secretName}] = true
		}
	}
	for _, p := range m.w.providers.objects.All() {
		for _, ref := range secretReferences(p, &credentials{}) {
			named[kube.Key{Namespace: p.Namespace, Name: ref.want.Name}] = true
		}
	}
	m.watched(named)
	receivers.compiled.Range(func(k, made any) bool {
		if r, ok := m.w.receivers.objects.Get(k.(kube.Key)); !ok || r.UID != made.(*compiled).uid {
			m.w.t.Errorf("the former Receiver %s is compiled", k)
		}
		return true
	})
	keptOf(m, m.w.receivers)
	keptOf(m, m.w.alerts)
	keptOf(m, m.w.providers)
	m.ofAges()
	for key := range m.w.hooks.hooks {
		m.present("hooks", v1.ReceiverKind, key)
	}
	for key := range m.w.hooks.awaited {
		m.present("awaited paths", v1.ReceiverKind, key)
	}
	for key := range m.w.subscriptions.served {
		m.present("a subscription", v1.ReceiverKind, key)
	}
	if n := m.w.serving.Len(); n > 0 {
		m.w.t.Errorf("%d namespaces are being served", n)
	}
}

// watched fails the test unless each Secret that is watched is named, and is watched once, and the count is right.
func (m *moody) watched(named map[kube.Key]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, n := range m.open {
		if n > 1 || n == 1 && !named[k] {
			m.w.t.Errorf("Secret %s has %d watches, and is named: %t", k, n, named[k])
		}
	}
	if held := m.gauge("notifier_secrets_held"); held > len(named) {
		m.w.t.Errorf("%d Secrets are held, of %d that are named", held, len(named))
	}
}

// gauge returns a value of the metrics.
func (m *moody) gauge(name string) int {
	families, err := m.registry.Gather()
	m.must(err)
	for _, f := range families {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	m.w.t.Errorf("there is no metric %s", name)
	return 0
}

// present fails the test unless the object of a key exists.
func (m *moody) present(what, kind, key string) {
	for _, k := range m.w.kinds[kind].keysIn("") {
		if k.String() == key {
			return
		}
	}
	m.w.t.Errorf("%s of the former %s %s", what, kind, key)
}

// keptOf fails the test unless verdicts and conditions of one kind are those of its objects.
func keptOf[T kube.Object](m *moody, k *kindOf[T]) {
	for key, v := range k.verdicts.m {
		if o, ok := k.objects.Get(key); !ok || o.GetUID() != v.uid {
			m.w.t.Errorf("there is a verdict on the former %s %s", k.name, key)
		}
	}
	for _, o := range k.objects.All() {
		if _, ok := k.verdicts.on(o); ok != (o.GetDeletionTimestamp() == nil) {
			m.w.t.Errorf("there is a verdict on the %s %s: %t", k.name, kube.KeyOf(o), ok)
		}
	}
	for key := range k.shown {
		if o, ok := k.objects.Get(key); !ok || o.GetDeletionTimestamp() == nil {
			m.w.t.Errorf("conditions of the %s %s are kept", k.name, key)
		}
	}
}

// deleteAll deletes all objects, after which nothing is kept.
func (m *moody) deleteAll() {
	for kind := range resources {
		for _, k := range m.w.kinds[kind].keysIn("") {
			m.put(kind, k.Namespace, k.Name, nil)
		}
	}
	pass(2 * maxQueued)
	m.consistent()
	for kind, n := range map[string]int{
		"Receivers": m.w.receivers.compileQueue.Len(), "Alerts": m.w.alerts.compileQueue.Len(), "Providers": m.w.providers.compileQueue.Len(),
		"statuses of Receivers": m.w.receivers.statusQueue.Len(), "statuses of Alerts": m.w.alerts.statusQueue.Len(),
		"statuses of Providers": m.w.providers.statusQueue.Len(), "recounts": m.w.recounts.Len(),
	} {
		if n > 0 {
			m.w.t.Errorf("%d %s are queued, and there are no objects", n, kind)
		}
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		for i := range 3 {
			if d := m.w.options.Destinations.Get(namespace, fmt.Sprint("x", i)); d != nil {
				m.w.t.Errorf("the destination x%d of %s is kept", i, namespace)
			}
			if _, kept := m.w.options.Alerts.Lookup(namespace, fmt.Sprint("x", i)); kept {
				m.w.t.Errorf("the Alert x%d of %s is kept", i, namespace)
			}
		}
	}
	if held, watches := m.gauge("notifier_secrets_held"), m.gauge("notifier_secret_watches"); held+watches > 0 {
		m.w.t.Errorf("%d Secrets are held, and %d watched", held, watches)
	}
}

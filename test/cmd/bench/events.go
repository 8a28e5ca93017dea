package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"notifier/test/env"
)

const (
	fewNamespaces   = 5
	manyNamespaces  = 5000
	alertsPerTenant = 2
	// objectsPerTenant is the number of objects in each of the first tenants; the events are about these.
	objectsPerTenant = 40
	manyWindow       = time.Second
	// manyWindows are more than elsewhere: the compared rates are nearly equal, and a window of events varies by a
	// quarter.
	manyWindows = 15
	// memoryEvents are delivered before the memory is measured.
	memoryEvents = 200_000
)

// alerting makes tenants, each with a generic Provider at the sink and two Alerts on it, and Kustomizations in the first
// ones. It waits until all Alerts are served, and returns the first tenants.
func alerting(ctx context.Context, w *env.System, tenants int, address string) ([]*env.Tenant, error) {
	all := make([]*env.Tenant, tenants)
	for i := range all {
		all[i] = &env.Tenant{System: w, Namespace: fmt.Sprintf("alerts-%d", i)}
	}
	advance := progress("tenants with Alerts", tenants)
	err := parallel(ctx, tenants, func(ctx context.Context, i int) error {
		defer advance()
		t := all[i]
		if err := t.Apply(ctx, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"$NS"}}`); err != nil {
			return err
		}
		if i < fewNamespaces {
			if err := kustomizations(ctx, t, objectsPerTenant); err != nil {
				return err
			}
		}
		return alerts(ctx, t, address, alertsPerTenant)
	})
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if _, err := t.WaitCondition(ctx, "Alert", "all-"+strconv.Itoa(alertsPerTenant-1), "Serving", "True", ""); err != nil {
			return nil, err
		}
	}
	return all[:fewNamespaces], nil
}

// kustomizations makes app-0 to app-(n-1).
func kustomizations(ctx context.Context, t *env.Tenant, n int) error {
	for i := range n {
		if err := t.Object(ctx, "Kustomization", fmt.Sprintf("app-%d", i), nil, ""); err != nil {
			return err
		}
	}
	return nil
}

// alerts makes a generic Provider at the address and n Alerts on it, all-0 to all-(n-1), for each Kustomization.
func alerts(ctx context.Context, t *env.Tenant, address string, n int) error {
	if err := t.Object(ctx, "Provider", "sink", nil, `{"type":"generic","address":"`+address+`"}`); err != nil {
		return err
	}
	for i := range n {
		if err := t.Object(ctx, "Alert", fmt.Sprintf("all-%d", i), nil,
			`{"providerRef":{"name":"sink"},"eventSources":[{"kind":"Kustomization","name":"*"}]}`); err != nil {
			return err
		}
	}
	return nil
}

// tenantWith makes a tenant with objects, one Provider and n Alerts on it, and waits until they are served.
func tenantWith(ctx context.Context, w *env.System, name, address string, objects, n int) (*env.Tenant, error) {
	t, err := w.Tenant(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := kustomizations(ctx, t, objects); err != nil {
		return nil, err
	}
	if err := alerts(ctx, t, address, n); err != nil {
		return nil, err
	}
	for i := range n {
		if _, err := t.WaitCondition(ctx, "Alert", fmt.Sprintf("all-%d", i), "Serving", "True", ""); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// manyAlerts compares two notifiers, each with a control plane of its own, window by window: one serves few Alerts, the
// other many. On both sides the events are about as many objects, of as many namespaces. Both processes are new: one
// that has served the measurements before has a larger heap.
func (b *bench) manyAlerts(ctx context.Context) error {
	sink, err := newLedger()
	if err != nil {
		return err
	}
	small, stop, err := b.second(ctx)
	if err != nil {
		return err
	}
	defer stop()
	contenderOf := func(n *env.Notifier, tenants int) (*contender, error) {
		first, err := alerting(ctx, n.System(), tenants, sink.url)
		if err != nil {
			return nil, err
		}
		if err := n.Stop(); err != nil {
			return nil, err
		}
		if err := n.Restart(ctx); err != nil {
			return nil, err
		}
		events, err := templates(ctx, objectsPerTenant, first...)
		return &contender{
			url: n.EventsURL, pid: n.Process().PID(), sink: sink, connections: mostConnections, events: events, deliveries: alertsPerTenant,
		}, err
	}
	few, err := contenderOf(small, fewNamespaces)
	if err != nil {
		return err
	}
	many, err := contenderOf(b.notifier, manyNamespaces)
	if err != nil {
		return err
	}
	if err := interleave(ctx, manyWindows, manyWindow, few, many); err != nil {
		return err
	}
	b.add(row{
		name: "events routed and delivered/s, 10,000 Alerts in 5,000 namespaces", measured: many.String(),
		baseline: "10 Alerts " + few.String(), value: many.rate() / few.rate(), bound: 0.9,
	})
	return nil
}

// second starts another notifier with another control plane.
func (b *bench) second(ctx context.Context, args ...string) (n *env.Notifier, stop func(), err error) {
	cluster, err := env.StartControlPlane(ctx, env.ClusterOptions{})
	if err != nil {
		return nil, nil, err
	}
	w, err := env.InstallOn(ctx, cluster, false)
	if err != nil {
		return nil, nil, err
	}
	if n, err = w.Start(ctx, env.NotifierOptions{Args: slices.Concat(unlimited, args)}); err != nil {
		return nil, nil, err
	}
	return n, func() {
		_ = n.Kill()
		_ = cluster.Stop()
	}, nil
}

// memory measures the process that serves the many Alerts, once it has delivered very many events.
func (b *bench) memory(ctx context.Context) error {
	p, err := b.plane(ctx)
	if err != nil {
		return err
	}
	c := p.contender(b.notifier, mostConnections)
	s := c.sequence("memory")
	s.Count = memoryEvents
	o, err := c.window(ctx, s)
	if err != nil {
		return err
	}
	resident, err := b.notifier.Memory(false)
	b.add(row{
		name:     fmt.Sprintf("memory of the process, 10,000 Alerts, %d events delivered", memoryEvents),
		measured: fmt.Sprintf("%.0f MiB resident", resident), baseline: fmt.Sprintf("sent at %.0f/s; peer: 265 MB with 5,000", o.rate),
		value: resident, bound: 120, atMost: true, unit: " MiB",
	})
	return err
}

func (b *bench) startToReady(ctx context.Context) error {
	t, err := b.system.Tenant(ctx, "start")
	if err != nil {
		return err
	}
	advance := progress("Receivers and Providers with Secrets", manyReceivers)
	err = parallel(ctx, manyReceivers, func(ctx context.Context, i int) error {
		defer advance()
		name := fmt.Sprintf("app-%d", i)
		if err := t.Secret(ctx, name, map[string]string{"token": token + name, "address": "http://127.0.0.1:1/" + name}); err != nil {
			return err
		}
		if err := t.Object(ctx, "Provider", name, nil, `{"type":"generic","secretRef":{"name":"`+name+`"}}`); err != nil {
			return err
		}
		return t.Object(ctx, "Receiver", name, nil, `{"type":"github","secretRef":{"name":"`+name+`"},
			"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app"}]}`)
	})
	if err != nil {
		return err
	}
	if err := b.notifier.Stop(); err != nil {
		return err
	}
	begin := time.Now()
	if err := b.notifier.Restart(ctx); err != nil {
		return err
	}
	took := time.Since(begin)
	resident, err := b.notifier.Memory(false)
	b.add(row{
		name: "start to ready, 10,000 Alerts, 1,000 Receivers, 1,000 Providers, all with Secrets", measured: took.Round(10 * time.Millisecond).String(),
		baseline: fmt.Sprintf("%.0f MB resident", resident), value: took.Seconds(), bound: 10, atMost: true, unit: "s",
	})
	return err
}

package main

import (
	"context"
	"fmt"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

const (
	// The events of a window are spread evenly over eventTenants × eventObjects objects: those of one object are sent
	// one after the other (E4).
	eventTenants = 5
	eventObjects = 40
	eventWindow  = 2 * time.Second
	// eventWindows are more than elsewhere: a window of events waits for the disk, and varies by a quarter.
	eventWindows = 5
	// historyWindows are as many as a ratio near one needs to vary by a few hundredths at most: with 15 of them five
	// runs gave 0.89 to 0.98, and a run with 60 gave 1.00.
	historyWindows = 60
	// mostConnections is the number of senders, except in the comparison with fewConnections.
	mostConnections, fewConnections = 64, 16
	// providersPerTenant is for the comparison with one Provider; each of the tenants has this many.
	providersPerTenant = 200
)

// eventPlane is the shared state of the measurements of events.
type eventPlane struct {
	sink   *ledger
	events []template
	relay  *contender
}

// plane makes, at its first call, tenants with objects, one Provider and one Alert each, and a bare relay.
func (b *bench) plane(ctx context.Context) (*eventPlane, error) {
	if b.events != nil {
		return b.events, nil
	}
	sink, err := newLedger()
	if err != nil {
		return nil, err
	}
	p := &eventPlane{sink: sink}
	if p.events, err = b.tenants(ctx, "events", sink.url, 1); err != nil {
		return nil, err
	}
	relay, url, err := load.StartRelay(ctx, sink.url+"/relay")
	if err != nil {
		return nil, err
	}
	p.relay = &contender{url: url, pid: relay.PID(), sink: sink, connections: mostConnections, events: p.events, deliveries: 1}
	b.events = p
	return p, nil
}

// tenants makes tenants with objects, a Provider each that posts to a path of its own, and so many Alerts on it. It
// returns the events about the objects.
func (b *bench) tenants(ctx context.Context, name, url string, alerts int) ([]template, error) {
	var all []*env.Tenant
	for i := range eventTenants {
		namespace := fmt.Sprintf("%s-%d", name, i)
		t, err := tenantWith(ctx, b.system, namespace, url+"/"+namespace, eventObjects, alerts)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return templates(ctx, eventObjects, all...)
}

// contender returns the notifier as a contender that serves the plane's tenants over so many connections.
func (p *eventPlane) contender(n *env.Notifier, connections int) *contender {
	return &contender{url: n.EventsURL, pid: n.Process().PID(), sink: p.sink, connections: connections, events: p.events, deliveries: 1}
}

// endToEnd compares events, from the POST to the sink, with two baselines: a relay that keeps nothing, and the rate at
// which the disk can keep every event.
func (b *bench) endToEnd(ctx context.Context) error {
	p, err := b.plane(ctx)
	if err != nil {
		return err
	}
	disk, diskURL, err := load.StartJetStream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = disk.Kill9() }()
	publishes := &contender{pid: disk.PID(), run: func(ctx context.Context, length time.Duration) (outcome, error) {
		m, err := newMeter(disk.PID())
		if err != nil {
			return outcome{}, err
		}
		rate, err := load.Publishes(ctx, diskURL, length)
		if err != nil {
			return outcome{}, err
		}
		process, others, err := m.read()
		return outcome{rate: rate, micros: float64(process.Microseconds()) / (rate * length.Seconds()), others: others}, err
	}}
	many, few := p.contender(b.notifier, mostConnections), p.contender(b.notifier, fewConnections)
	if err := interleave(ctx, eventWindows, eventWindow, many, few, p.relay, publishes); err != nil {
		return err
	}
	b.add(row{
		name: fmt.Sprintf("events/s end to end, %d connections, one Alert", mostConnections), measured: many.String(),
		baseline: "bare relay " + p.relay.String(), value: many.rate() / p.relay.rate(), bound: 0.35,
	})
	b.add(row{
		name: "the same beside acknowledged publishes with SyncAlways", measured: many.String(),
		baseline: "JetStream " + publishes.String(), value: many.rate() / publishes.rate(), reported: true,
	})
	b.add(row{
		name: fmt.Sprintf("events/s end to end, %d connections to %d", mostConnections, fewConnections), measured: many.String(),
		baseline: fmt.Sprintf("%d connections %s", fewConnections, few), value: many.rate() / few.rate(), reported: true,
	})
	return nil
}

// fanOut compares events to one Provider with events to two, and with events to one of very many.
func (b *bench) fanOut(ctx context.Context) error {
	p, err := b.plane(ctx)
	if err != nil {
		return err
	}
	var many []*env.Tenant
	for i := range eventTenants {
		t, err := b.tenantOfProviders(ctx, fmt.Sprintf("providers-%d", i), p.sink.url)
		if err != nil {
			return err
		}
		many = append(many, t)
	}
	one, doubled, spread := p.contender(b.notifier, mostConnections), p.contender(b.notifier, mostConnections), p.contender(b.notifier, mostConnections)
	doubled.deliveries = 2
	if doubled.events, err = b.tenants(ctx, "two-alerts", p.sink.url, 2); err != nil {
		return err
	}
	if spread.events, err = templates(ctx, providersPerTenant, many...); err != nil {
		return err
	}
	if err := interleave(ctx, eventWindows, eventWindow, one, doubled, spread); err != nil {
		return err
	}
	b.add(row{
		name: fmt.Sprintf("events/s, %d Providers", eventTenants*providersPerTenant), measured: spread.String(),
		baseline: fmt.Sprintf("%d Providers %s", eventTenants, one), value: spread.rate() / one.rate(), reported: true,
	})
	b.add(row{
		name: "deliveries/s, two Alerts an event", measured: fmt.Sprintf("%.0f/s of events %s", 2*doubled.rate(), doubled),
		baseline: "one Alert " + one.String(), value: 2 * doubled.rate() / one.rate(), reported: true,
	})
	return nil
}

// history compares two notifiers, each with a control plane of its own: one keeps the delivered notifications for
// owners, the other does not.
func (b *bench) history(ctx context.Context) error {
	sink, err := newLedger()
	if err != nil {
		return err
	}
	var sides []*contender
	for _, args := range [][]string{nil, {"--history-age", "0"}} {
		n, stop, err := b.second(ctx, args...)
		if err != nil {
			return err
		}
		defer stop()
		other := &bench{system: n.System()}
		events, err := other.tenants(ctx, "history", sink.url, 1)
		if err != nil {
			return err
		}
		sides = append(sides, &contender{
			url: n.EventsURL, pid: n.Process().PID(), sink: sink, connections: mostConnections, events: events, deliveries: 1,
		})
	}
	with, without := sides[0], sides[1]
	if err := interleave(ctx, historyWindows, manyWindow, with, without); err != nil {
		return err
	}
	b.add(row{
		name: "events delivered/s with a history", measured: with.String(),
		baseline: "--history-age=0 " + without.String(), value: with.rate() / without.rate(), bound: 0.95,
	})
	return nil
}

// tenantOfProviders makes a tenant with objects that have a Provider and an Alert each.
func (b *bench) tenantOfProviders(ctx context.Context, name, url string) (*env.Tenant, error) {
	t, err := b.system.Tenant(ctx, name)
	if err != nil {
		return nil, err
	}
	err = parallel(ctx, providersPerTenant, func(ctx context.Context, i int) error {
		app := fmt.Sprintf("app-%d", i)
		if err := t.Object(ctx, "Kustomization", app, nil, ""); err != nil {
			return err
		}
		if err := t.Object(ctx, "Provider", app, nil, fmt.Sprintf(`{"type":"generic","address":"%s/%s/%s"}`, url, name, app)); err != nil {
			return err
		}
		if err := t.Object(ctx, "Alert", app, nil,
			fmt.Sprintf(`{"providerRef":{"name":%q},"eventSources":[{"kind":"Kustomization","name":%[1]q}]}`, app)); err != nil {
			return err
		}
		_, err := t.WaitCondition(ctx, "Alert", app, "Serving", "True", "")
		return err
	})
	return t, err
}

const (
	idleRate = 50 // events a second
	idleTime = 3 * time.Second
	halfTime = 4 * time.Second
	// latencyWindows are more than elsewhere: one slow fsync of the disk is the p99 of a window.
	latencyWindows = 5
)

// latency measures the time of a delivery on an idle process and at half of its greatest rate. Each is measured beside a
// relay under the same load, whose time is the machine's share.
func (b *bench) latency(ctx context.Context) error {
	p, err := b.plane(ctx)
	if err != nil {
		return err
	}
	full := p.contender(b.notifier, mostConnections)
	if err := interleave(ctx, 3, eventWindow, full); err != nil {
		return err
	}
	for _, side := range []struct {
		name        string
		connections int
		rate        float64
		time        time.Duration
		most        float64
	}{
		{"idle", 1, idleRate, idleTime, 5},
		{"half load", mostConnections, full.rate() / 2, halfTime, 15},
	} {
		ours, relay := p.contender(b.notifier, side.connections), *p.relay
		relay.connections, relay.outcomes = side.connections, nil
		for k := range latencyWindows {
			for _, c := range []*contender{ours, &relay} {
				if err := quiet(ctx, c.pid); err != nil {
					return err
				}
				s := c.sequence(fmt.Sprintf("latency-%d-%d", k, time.Now().UnixNano()))
				s.Rate, s.For = side.rate, side.time
				o, err := c.window(ctx, s)
				if err != nil {
					return err
				}
				c.outcomes = append(c.outcomes, o)
			}
		}
		b.add(row{
			name:     "p99 from POST to the sink's receipt, " + side.name,
			measured: fmt.Sprintf("%v, median %v, at %.0f/s", rounded(ours.percentile(0.99)), rounded(ours.percentile(0.5)), side.rate),
			baseline: fmt.Sprintf("bare relay %v, median %v", rounded(relay.percentile(0.99)), rounded(relay.percentile(0.5))),
			value:    ours.percentile(0.99).Seconds() * 1000, bound: side.most, atMost: true, unit: " ms",
		})
	}
	return nil
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// percentile returns the median, over the windows, of the time within which that share of the deliveries arrived.
func (c *contender) percentile(share float64) time.Duration {
	return time.Duration(c.median(func(o outcome) float64 { return float64(o.percentile(share)) }))
}

// percentile returns the time within which that share of the deliveries arrived.
func (o outcome) percentile(share float64) time.Duration {
	return o.took[int(share*float64(len(o.took)-1))]
}

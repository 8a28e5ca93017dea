package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

const (
	// A backlog of drained deliveries about drainObjects objects is sent after the destination is back.
	drained      = 2000
	drainObjects = 40
	drainRounds  = 3
	// waiting deliveries of one tenant are on the disk at a restart: each of waitingEvents events for each of
	// waitingAlerts Alerts.
	waitingAlerts = 100
	waitingEvents = 1000
	// Another tenant's latency is measured for afterRestart right after it, and once more.
	afterRestart = 2 * time.Second
	// leastDrained is the least rate at which a backlog drains, as a share of the steady rate.
	leastDrained = 0.5
)

// waiting returns when so many deliveries are on the schedule.
func waiting(ctx context.Context, n *env.Notifier, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	said := time.Now()
	return env.Eventually(ctx, func(ctx context.Context) error {
		got, err := n.Metric(ctx, "notifier_delivery_queue_depth", "place", "schedule")
		if err != nil {
			return err
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "bench: … %.0f of %d wait\n", got, count)
		}
		if int(got) < count {
			return fmt.Errorf("%.0f of %d wait", got, count)
		}
		return nil
	})
}

// destination makes a tenant whose one Provider has a ledger of its own as destination, and so many Alerts on it.
func destination(ctx context.Context, n *env.Notifier, name string, objects, alerts int) (*contender, error) {
	sink, err := newLedger()
	if err != nil {
		return nil, err
	}
	t, err := tenantWith(ctx, n.System(), name, sink.url, objects, alerts)
	if err != nil {
		return nil, err
	}
	events, err := templates(ctx, objects, t)
	return &contender{
		url: n.EventsURL, pid: n.Process().PID(), sink: sink, connections: mostConnections, events: events, deliveries: alerts,
	}, err
}

// send sends so many events, as fast as they are accepted, and waits for their deliveries.
func (c *contender) send(ctx context.Context, round string, count int) (outcome, error) {
	s := c.sequence(round)
	s.Count = count
	return c.window(ctx, s)
}

// fill posts so many events while the destination is down, and returns when that share of their deliveries is on the
// schedule.
func (c *contender) fill(ctx context.Context, n *env.Notifier, round string, count int, share float64) error {
	c.sink.begin()
	c.sink.down.Store(true)
	s := c.sequence(round)
	s.Count = count
	if _, err := s.Run(ctx); err != nil {
		return err
	}
	return waiting(ctx, n, int(share*float64(count*c.deliveries)))
}

// empty brings the destination up again and returns how many of so many waiting deliveries arrive a second. It measures
// from the first one until all but a twentieth have arrived. Deliveries that were tried while the destination was down
// wait for their own retry, and the rest must not wait for them.
func (c *contender) empty(ctx context.Context, count int, duplicatesAllowed bool) (float64, error) {
	before := c.sink.count.Load()
	c.sink.down.Store(false)
	if err := c.sink.wait(ctx, before+1); err != nil {
		return 0, err
	}
	begin := time.Now()
	most := count - count/20
	if err := c.sink.wait(ctx, before+int64(most)); err != nil {
		return 0, err
	}
	rate := float64(most) / time.Since(begin).Seconds()
	if err := c.sink.wait(ctx, before+int64(count)); err != nil {
		return 0, err
	}
	_, err := c.sink.check(duplicatesAllowed)
	return rate, err
}

// drain compares the rate at which a backlog is sent once its destination is back with the rate of events that are sent
// at once.
func (b *bench) drain(ctx context.Context) error {
	c, err := destination(ctx, b.notifier, "drain", drainObjects, 1)
	if err != nil {
		return err
	}
	var steady, backlog, ratios []float64
	for k := range drainRounds {
		o, err := c.send(ctx, fmt.Sprint("steady-", k), drained)
		if err != nil {
			return err
		}
		if err := c.fill(ctx, b.notifier, fmt.Sprint("down-", k), drained, 0.9); err != nil {
			return err
		}
		rate, err := c.empty(ctx, drained, false)
		if err != nil {
			return err
		}
		steady, backlog, ratios = append(steady, o.rate), append(backlog, rate), append(ratios, rate/o.rate)
	}
	b.add(row{
		name: fmt.Sprintf("drain of %d waiting deliveries to a Provider that is back", drained), measured: fmt.Sprintf("%.0f/s", load.Median(backlog)),
		baseline: fmt.Sprintf("as they come %.0f/s", load.Median(steady)), value: load.Median(ratios), bound: leastDrained,
	})
	return nil
}

// restartWaiting kills a process that has very many waiting deliveries of one tenant, measures another tenant's latency
// right after and 2 s later, and then lets the deliveries be sent.
func (b *bench) restartWaiting(ctx context.Context) error {
	n, stop, err := b.second(ctx)
	if err != nil {
		return err
	}
	defer stop()
	other, err := destination(ctx, n, "other", drainObjects, 1)
	if err != nil {
		return err
	}
	flood, err := destination(ctx, n, "flood", drainObjects, waitingAlerts)
	if err != nil {
		return err
	}
	idle, err := other.alone(ctx, "idle")
	if err != nil {
		return err
	}
	steady, err := other.send(ctx, "steady", 2*drained)
	if err != nil {
		return err
	}
	if err := flood.fill(ctx, n, "flood", waitingEvents, 0.99); err != nil {
		return err
	}
	if err := n.Kill(); err != nil {
		return err
	}
	begin := time.Now()
	if err := n.Restart(ctx); err != nil {
		return err
	}
	ready := time.Since(begin)
	other.pid = n.Process().PID()
	after, err := other.alone(ctx, "after")
	if err != nil {
		return err
	}
	resident, err := n.Memory(false)
	if err != nil {
		return err
	}
	later, err := other.alone(ctx, "later")
	if err != nil {
		return err
	}
	b.addWaiting(ready, resident, idle, after, later)
	rate, err := flood.empty(ctx, waitingEvents*waitingAlerts, true)
	if err != nil {
		return err
	}
	b.add(row{
		name:     fmt.Sprintf("then: drain of %d waiting deliveries to a Provider that is back", waitingEvents*waitingAlerts),
		measured: fmt.Sprintf("%.0f/s", rate), baseline: fmt.Sprintf("as they come %.0f/s", steady.rate), value: rate / steady.rate, bound: leastDrained,
	})
	return nil
}

// alone sends an event every few milliseconds for a time and returns the 99th percentile of their time to the sink.
func (c *contender) alone(ctx context.Context, round string) (time.Duration, error) {
	s := c.sequence(round)
	s.Rate, s.For = 100, afterRestart
	o, err := c.window(ctx, s)
	if err != nil {
		return 0, err
	}
	return o.percentile(0.99), nil
}

// addWaiting adds the measurements after a restart, with the latencies before it, right after it and after that.
func (b *bench) addWaiting(ready time.Duration, resident float64, idle, after, later time.Duration) {
	b.add(row{
		name: "start to ready after kill -9, 100,000 deliveries of one tenant waiting", measured: ready.Round(10 * time.Millisecond).String(),
		value: ready.Seconds(), bound: 2, atMost: true, unit: "s",
	})
	b.addLatency("then, for 2 s", idle, after)
	b.addLatency("then, 2 s after ready", idle, later)
	b.add(row{
		name: "then: memory of the process", measured: fmt.Sprintf("%.0f MB resident", resident), value: resident, bound: 200, atMost: true, unit: " MB",
	})
}

func (b *bench) addLatency(when string, idle, took time.Duration) {
	b.add(row{
		name: when + ": p99 of another tenant from POST to sink", measured: took.Round(10 * time.Microsecond).String(),
		baseline: "idle " + idle.Round(10*time.Microsecond).String(), value: float64(took) / float64(idle), bound: 2, atMost: true,
	})
}

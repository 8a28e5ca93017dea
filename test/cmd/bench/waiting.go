package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

const (
	// A backlog of drained deliveries about drainObjects objects goes out after the destination is back.
	drained      = 2000
	drainObjects = 40
	drainRounds  = 3
	// waiting deliveries of one tenant stand on the disk at a restart: each of waitingEvents events for each of waitingAlerts Alerts.
	waitingAlerts = 100
	waitingEvents = 1000
	// A few samples a millisecond apart are taken of another tenant's latency right after it.
	afterRestart = 2 * time.Second
)

// events makes the requests of count events about the tenant's first objects.
func events(ctx context.Context, n *env.Notifier, t *env.Tenant, round string, objects, count int) ([][]byte, error) {
	var requests [][]byte
	bodies := make([]map[string]any, objects)
	for i := range bodies {
		e, err := t.Event(ctx, "Kustomization", fmt.Sprintf("app-%d", i), "info", "ReconciliationSucceeded", "", "main@sha1:1")
		if err != nil {
			return nil, err
		}
		bodies[i] = e
	}
	for i := range count {
		e := bodies[i%objects]
		e["message"] = fmt.Sprintf("%s %d", round, i)
		body, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		req, err := load.Request(n.EventsURL, "/", http.Header{"Content-Type": {"application/json"}}, string(body))
		if err != nil {
			return nil, err
		}
		requests = append(requests, req)
	}
	return requests, nil
}

// tenantWith makes a tenant with objects and one Provider, and as many Alerts on it.
func tenantWith(ctx context.Context, w *env.World, name, address string, objects, alerts int) (*env.Tenant, error) {
	t, err := w.Tenant(ctx, name)
	if err != nil {
		return nil, err
	}
	for i := range objects {
		if err := t.Object(ctx, "Kustomization", fmt.Sprintf("app-%d", i), nil, ""); err != nil {
			return nil, err
		}
	}
	if err := t.Object(ctx, "Provider", "sink", nil, `{"type":"generic","address":"`+address+`"}`); err != nil {
		return nil, err
	}
	for i := range alerts {
		if err := t.Object(ctx, "Alert", fmt.Sprintf("all-%d", i), nil,
			`{"providerRef":{"name":"sink"},"eventSources":[{"kind":"Kustomization","name":"*"}]}`); err != nil {
			return nil, err
		}
	}
	for i := range alerts {
		if _, err := t.WaitCondition(ctx, "Alert", fmt.Sprintf("all-%d", i), "Serving", "True", ""); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// parked waits until so many deliveries are on the schedule.
func parked(ctx context.Context, n *env.Notifier, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	advance := time.Now()
	return env.Eventually(ctx, func(ctx context.Context) error {
		got, err := n.Metric(ctx, "notifier_delivery_queue_depth", "place", "schedule")
		if err != nil {
			return err
		}
		if time.Since(advance) > 5*time.Second {
			advance = time.Now()
			fmt.Fprintf(os.Stderr, "bench: … %.0f of %d wait\n", got, count)
		}
		if int(got) < count {
			return fmt.Errorf("%.0f of %d wait", got, count)
		}
		return nil
	})
}

// drain compares how fast a backlog goes out once its destination is back with how fast events go out as they come.
func (b *bench) drain(ctx context.Context) error {
	sink, err := newCounter()
	if err != nil {
		return err
	}
	t, err := tenantWith(ctx, b.world, "drain", sink.url, drainObjects, 1)
	if err != nil {
		return err
	}
	send := func(round string) error {
		requests, err := events(ctx, b.notifier, t, round, drainObjects, drained)
		if err != nil {
			return err
		}
		return load.Send(ctx, b.notifier.EventsURL, requests)
	}
	var steady, backlog, ratios []float64
	for k := range drainRounds {
		want := sink.count.Load() + drained
		begin := time.Now()
		if err := send(fmt.Sprint("steady ", k)); err != nil {
			return err
		}
		if err := sink.wait(ctx, want); err != nil {
			return err
		}
		steady = append(steady, drained/time.Unix(0, sink.last.Load()).Sub(begin).Seconds())

		sink.down.Store(true)
		if err := send(fmt.Sprint("down ", k)); err != nil {
			return err
		}
		if err := parked(ctx, b.notifier, drained*9/10); err != nil {
			return err
		}
		first := sink.count.Load() + 1
		want = sink.count.Load() + drained
		sink.down.Store(false)
		if err := sink.wait(ctx, first); err != nil {
			return err
		}
		begin = time.Now()
		// What was tried while the destination was down waits for its own retry; the rest must not wait for that.
		if err := sink.wait(ctx, want-drained/20); err != nil {
			return err
		}
		backlog = append(backlog, (drained-drained/20)/time.Unix(0, sink.last.Load()).Sub(begin).Seconds())
		if err := sink.wait(ctx, want); err != nil {
			return err
		}
		ratios = append(ratios, backlog[k]/steady[k])
	}
	b.add(row{
		name: "drain of 2,000 waiting deliveries to a Provider that is back", measured: fmt.Sprintf("%.0f/s", load.Median(backlog)),
		baseline: fmt.Sprintf("as they come %.0f/s", load.Median(steady)), value: load.Median(ratios), bound: 0.5,
	})
	return nil
}

// latencies POSTs events one after the other for a time, at least ten, and returns how long each took to the sink, sorted.
func latencies(ctx context.Context, n *env.Notifier, t *env.Tenant, sink *counter, round string, during time.Duration) ([]time.Duration, error) {
	e, err := t.Event(ctx, "Kustomization", "app-0", "info", "ReconciliationSucceeded", "", "main@sha1:1")
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for end := time.Now().Add(during); time.Now().Before(end) || len(took) < 10; {
		e["message"] = fmt.Sprintf("%s %d", round, len(took))
		begin, want := time.Now(), sink.count.Load()+1
		if resp, err := n.Post(ctx, e); err != nil || resp.Status != http.StatusAccepted {
			return nil, fmt.Errorf("POST: %d %w", resp.Status, err)
		}
		if err := sink.wait(ctx, want); err != nil {
			return nil, err
		}
		took = append(took, time.Unix(0, sink.last.Load()).Sub(begin))
	}
	slices.Sort(took)
	return took, nil
}

// restartWaiting kills a process that has very many deliveries of one tenant waiting, and looks at another tenant's right after.
func (b *bench) restartWaiting(ctx context.Context) error {
	n, stop, err := b.second(ctx)
	if err != nil {
		return err
	}
	defer stop()
	sink, err := newCounter()
	if err != nil {
		return err
	}
	other, err := tenantWith(ctx, n.World(), "other", sink.url, 1, 1)
	if err != nil {
		return err
	}
	flood, err := tenantWith(ctx, n.World(), "flood", "http://127.0.0.1:1/", drainObjects, waitingAlerts)
	if err != nil {
		return err
	}
	idle, err := latencies(ctx, n, other, sink, "idle", afterRestart)
	if err != nil {
		return err
	}
	requests, err := events(ctx, n, flood, "flood", drainObjects, waitingEvents)
	if err != nil {
		return err
	}
	if err := load.Send(ctx, n.EventsURL, requests); err != nil {
		return err
	}
	if err := parked(ctx, n, waitingEvents*waitingAlerts*99/100); err != nil {
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
	after, err := latencies(ctx, n, other, sink, "after", afterRestart)
	if err != nil {
		return err
	}
	resident, err := residentMB(n.Process().PID())
	if err != nil {
		return err
	}
	b.addWaiting(ready, resident, idle, after)
	return nil
}

// addWaiting adds what was measured after a restart, with latencies before and after it.
func (b *bench) addWaiting(ready time.Duration, resident float64, idle, after []time.Duration) {
	p99 := func(took []time.Duration) time.Duration { return took[len(took)*99/100] }
	b.add(row{
		name: "start to ready after kill -9, 100,000 deliveries of one tenant waiting", measured: ready.Round(10 * time.Millisecond).String(),
		baseline: "", value: ready.Seconds(), bound: 2, atMost: true, unit: "s",
	})
	b.add(row{
		name: "then, for 2 s: p99 of another tenant from POST to sink", measured: p99(after).Round(10 * time.Microsecond).String(),
		baseline: "idle " + p99(idle).Round(10*time.Microsecond).String(), value: float64(p99(after)) / float64(p99(idle)), bound: 2, atMost: true,
	})
	b.add(row{
		name: "then: memory of the process", measured: fmt.Sprintf("%.0f MB resident", resident),
		baseline: "", value: resident, bound: 200, atMost: true, unit: " MB",
	})
}

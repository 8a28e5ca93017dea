package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

const (
	fewNamespaces   = 5
	manyNamespaces  = 5000
	alertsPerTenant = 2
	// The events of a window are about this many objects, evenly: one object's go one after the other (E4).
	objectsPerTenant = 40
	eventsPerWindow  = 2000
	// manyWindows are more than elsewhere: what is compared is nearly equal, and a window of events, each on disk twice, varies by a
	// quarter.
	manyWindows = 15
	idleSamples = 100
)

// counter is a destination that only counts.
type counter struct {
	url   string
	count atomic.Int64
	last  atomic.Int64 // Unix nanoseconds
	down  atomic.Bool  // it refuses with 503, and does not count that
}

func newCounter() (*counter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{url: "http://" + l.Addr().String() + "/"}
	go func() { // ends with the process
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if c.down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			c.last.Store(time.Now().UnixNano())
			c.count.Add(1)
		}))
	}()
	return c, nil
}

// wait returns when count has been reached, or an error when nothing came for a while.
func (c *counter) wait(ctx context.Context, count int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	progress, seen := time.Now(), c.count.Load()
	for c.count.Load() < count {
		if now := c.count.Load(); now != seen {
			progress, seen = time.Now(), now
		}
		if time.Since(progress) > 30*time.Second {
			return fmt.Errorf("%d of %d notifications arrived", seen, count)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// alerting makes tenants, each with a generic Provider at the sink and two Alerts on it, the first ones with Kustomizations, and
// waits until all Alerts are served.
func alerting(ctx context.Context, w *env.World, tenants int, sink *counter) error {
	advance := progress("tenants with Alerts", tenants)
	err := parallel(ctx, tenants, func(ctx context.Context, i int) error {
		defer advance()
		t := &env.Tenant{World: w, Namespace: fmt.Sprintf("alerts-%d", i)}
		if err := t.Apply(ctx, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"$NS"}}`); err != nil {
			return err
		}
		if i < fewNamespaces {
			for k := range objectsPerTenant {
				if err := t.Object(ctx, "Kustomization", fmt.Sprintf("app-%d", k), nil, ""); err != nil {
					return err
				}
			}
		}
		if err := t.Object(ctx, "Provider", "sink", nil, `{"type":"generic","address":"`+sink.url+`"}`); err != nil {
			return err
		}
		for k := range alertsPerTenant {
			if err := t.Object(ctx, "Alert", "all-"+strconv.Itoa(k), nil,
				`{"providerRef":{"name":"sink"},"eventSources":[{"kind":"Kustomization","name":"*"}]}`); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range tenants {
		t := &env.Tenant{World: w, Namespace: fmt.Sprintf("alerts-%d", i)}
		if _, err := t.WaitCondition(ctx, "Alert", "all-"+strconv.Itoa(alertsPerTenant-1), "Serving", "True", ""); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) idleLatency(ctx context.Context) error {
	sink, err := newCounter()
	if err != nil {
		return err
	}
	t, err := b.world.Tenant(ctx, "idle")
	if err != nil {
		return err
	}
	if err := t.Object(ctx, "Kustomization", "app", nil, ""); err != nil {
		return err
	}
	if err := t.Alert(ctx, "all", "generic", sink.url, `{"kind":"Kustomization","name":"*"}`); err != nil {
		return err
	}
	e, err := t.Event(ctx, "Kustomization", "app", "info", "ReconciliationSucceeded", "", "main@sha1:1")
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range idleSamples {
		e["message"] = fmt.Sprintf("sample %d", i)
		begin := time.Now()
		if resp, err := b.notifier.Post(ctx, e); err != nil || resp.Status != http.StatusAccepted {
			return fmt.Errorf("POST: %d %w", resp.Status, err)
		}
		if err := sink.wait(ctx, int64(i+1)); err != nil {
			return err
		}
		took = append(took, time.Unix(0, sink.last.Load()).Sub(begin))
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	b.add(row{
		name: "p99 from POST to the sink's receipt, idle", measured: p99.Round(10 * time.Microsecond).String(),
		baseline: "median " + took[len(took)/2].Round(10*time.Microsecond).String(),
		value:    float64(p99) / float64(time.Millisecond), bound: 250, atMost: true, unit: "ms",
	})
	return nil
}

// through sends a window of events about the first tenants and returns how many were delivered a second, two for each.
func through(ctx context.Context, n *env.Notifier, sink *counter, round string) (float64, error) {
	var bodies []map[string]any
	for i := range fewNamespaces * objectsPerTenant {
		t := &env.Tenant{World: n.World(), Namespace: fmt.Sprintf("alerts-%d", i%fewNamespaces)}
		e, err := t.Event(ctx, "Kustomization", fmt.Sprintf("app-%d", i/fewNamespaces), "info", "ReconciliationSucceeded", "", "main@sha1:1")
		if err != nil {
			return 0, err
		}
		bodies = append(bodies, e)
	}
	var requests [][]byte
	for i := range eventsPerWindow {
		e := bodies[i%len(bodies)]
		e["message"] = fmt.Sprintf("%s %d", round, i)
		body, err := json.Marshal(e)
		if err != nil {
			return 0, err
		}
		req, err := load.Request(n.EventsURL, "/", http.Header{"Content-Type": {"application/json"}}, string(body))
		if err != nil {
			return 0, err
		}
		requests = append(requests, req)
	}
	want := sink.count.Load() + eventsPerWindow*alertsPerTenant
	begin := time.Now()
	if err := load.Send(ctx, n.EventsURL, requests); err != nil {
		return 0, err
	}
	if err := sink.wait(ctx, want); err != nil {
		return 0, err
	}
	return eventsPerWindow / time.Unix(0, sink.last.Load()).Sub(begin).Seconds(), nil
}

// manyAlerts compares two notifiers, each with a control plane of its own, window by window: one that has few Alerts to serve and one
// that has many. The events are about as many objects, of as many namespaces, on both sides.
func (b *bench) manyAlerts(ctx context.Context) error {
	sink, err := newCounter()
	if err != nil {
		return err
	}
	small, stop, err := b.second(ctx)
	if err != nil {
		return err
	}
	defer stop()
	sides := []struct {
		n       *env.Notifier
		tenants int
		rates   []float64
	}{{n: small, tenants: fewNamespaces}, {n: b.notifier, tenants: manyNamespaces}}
	for _, side := range sides {
		if err := alerting(ctx, side.n.World(), side.tenants, sink); err != nil {
			return err
		}
	}
	var ratios []float64
	for k := range 1 + manyWindows {
		var rates [2]float64
		for i := range sides {
			i = (i + k) % len(sides) // in turn first, since the machine gets slower and faster meanwhile
			rate, err := through(ctx, sides[i].n, sink, fmt.Sprintf("window %d", k))
			if err != nil {
				return err
			}
			rates[i] = rate
		}
		if k > 0 { // the first one is to warm up
			for i := range sides {
				sides[i].rates = append(sides[i].rates, rates[i])
			}
			ratios = append(ratios, rates[1]/rates[0])
		}
	}
	b.add(row{
		name:     "events routed and delivered/s, 10,000 Alerts in 5,000 namespaces",
		measured: fmt.Sprintf("%.0f/s", load.Median(sides[1].rates)), baseline: fmt.Sprintf("10 Alerts %.0f/s", load.Median(sides[0].rates)),
		value: load.Median(ratios), bound: 0.9,
	})
	return nil
}

// second starts another notifier with another control plane.
func (b *bench) second(ctx context.Context) (n *env.Notifier, stop func(), err error) {
	cluster, err := env.StartControlPlane(ctx, env.ClusterOptions{})
	if err != nil {
		return nil, nil, err
	}
	w, err := env.Open(ctx, cluster, false)
	if err != nil {
		return nil, nil, err
	}
	if n, err = w.Start(ctx, env.NotifierOptions{Args: unlimited}); err != nil {
		return nil, nil, err
	}
	return n, func() {
		_ = n.Kill()
		if cluster.Process != nil { // it is not somebody else's
			_ = cluster.Process.Terminate(10 * time.Second)
		}
	}, nil
}

func (b *bench) memory(ctx context.Context) error {
	if err := b.notifier.Stop(); err != nil {
		return err
	}
	if err := b.notifier.Restart(ctx); err != nil {
		return err
	}
	resident, err := residentMB(b.notifier.Process().PID())
	b.add(row{
		name: "memory of the process, 10,000 Alerts", measured: fmt.Sprintf("%.0f MB resident", resident),
		baseline: "peer: 265 MB with 5,000", value: resident, bound: 200, atMost: true, unit: " MB",
	})
	return err
}

func residentMB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in the status of process %d", pid)
}

func (b *bench) startToReady(ctx context.Context) error {
	t, err := b.world.Tenant(ctx, "start")
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
	resident, err := residentMB(b.notifier.Process().PID())
	b.add(row{
		name: "start to ready, 10,000 Alerts, 1,000 Receivers, 1,000 Providers, all with Secrets", measured: took.Round(10 * time.Millisecond).String(),
		baseline: fmt.Sprintf("%.0f MB resident", resident), value: took.Seconds(), bound: 10, atMost: true, unit: "s",
	})
	return err
}

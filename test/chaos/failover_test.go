package chaos

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

const (
	// failOver and handOver are the promises in docs/operations.md: after a kill, and after the worker has ended by
	// itself.
	failOver = 5 * time.Second
	handOver = time.Second
)

// A killed worker is replaced within 5 s, a stopped one within 1 s of its end, and events are delivered by the new one.
// Fails when the lease outlives its worker, or is not released.
func TestAnotherReplicaTakesOverInTime(t *testing.T) {
	ctx, w := open(t)
	w = shipped(ctx, t, w)
	nats, err := env.StartNATS(ctx, env.NATSOptions{})
	must(t, err)
	t.Cleanup(func() { _ = nats.Stop() })
	sink, err := env.NewSink()
	must(t, err)
	t.Cleanup(func() { _ = sink.Down() })
	var fleet []*env.Notifier
	for range 3 {
		fleet = append(fleet, start(ctx, t, w, env.NotifierOptions{Args: []string{"--nats-url", nats.URL}}))
	}
	tenant, err := w.Tenant(ctx, "failover-")
	must(t, err)
	must(t, tenant.Object(ctx, "Kustomization", "app", nil, ""))
	must(t, tenant.SlackAlert(ctx, "all", sink.URL("/")))

	for i := range 4 {
		worker, others := workerOf(ctx, t, fleet)
		var from time.Time
		within := failOver
		if i%2 == 0 {
			must(t, worker.Kill())
			from = time.Now()
		} else {
			must(t, worker.Stop())
			from, within = time.Now(), handOver
		}
		next := worker
		for next == worker && time.Since(from) < 2*failOver {
			for _, other := range others {
				if isWorker(ctx, other) == nil {
					next = other
				}
			}
		}
		took := time.Since(from)
		if next == worker || took > within {
			t.Errorf("round %d: the next worker after %s, want %s", i, took, within)
		}
		revision := "main@sha1:" + string(rune('a'+i))
		event, err := tenant.Event(ctx, "Kustomization", "app", "error", "BuildFailed", revision, revision)
		must(t, err)
		resp, err := others[0].Post(ctx, event)
		if err != nil || resp.Status != http.StatusAccepted {
			t.Fatalf("event: got %d, %v", resp.Status, err)
		}
		_, err = sink.Wait(ctx, func(all []env.Received) bool {
			return slices.ContainsFunc(all, func(r env.Received) bool { return strings.Contains(string(r.Body), revision) })
		})
		must(t, err)
		t.Logf("round %d, killed %t: another is the worker after %s, an event is delivered after %s",
			i, i%2 == 0, took.Round(time.Millisecond), time.Since(from).Round(time.Millisecond))
		must(t, worker.Restart(ctx))
	}
}

// workerOf waits until one replica is the worker, and returns it and the others.
func workerOf(ctx context.Context, t *testing.T, fleet []*env.Notifier) (worker *env.Notifier, others []*env.Notifier) {
	t.Helper()
	must(t, env.Eventually(ctx, func(ctx context.Context) error {
		worker, others = nil, nil
		for _, n := range fleet {
			if isWorker(ctx, n) == nil {
				worker = n
			} else {
				others = append(others, n)
			}
		}
		if worker == nil || len(others) != len(fleet)-1 {
			return errors.New("not one worker")
		}
		return nil
	}))
	return worker, others
}

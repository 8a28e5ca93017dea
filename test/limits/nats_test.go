package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// unavailable fails the test unless the answer is 503, for a webhook with Retry-After, for an event without: that would
// shorten its controller's retries.
func (s *fixture) unavailable(what string, got env.Response, webhook bool) {
	s.Helper()
	if after := got.Header.Get("Retry-After"); got.Status != http.StatusServiceUnavailable || (after != "") != webhook {
		s.Errorf("%s: got %d %q with Retry-After %q, want 503", what, got.Status, got.Body, after)
	}
}

// notReady waits until /readyz answers 503, and returns its body.
func (s *fixture) notReady(ctx context.Context) (body string, err error) {
	s.Helper()
	err = env.Eventually(ctx, func(ctx context.Context) error {
		resp, err := s.Do(ctx, http.MethodGet, s.HealthURL+"/readyz", nil, nil)
		if err != nil {
			return err
		}
		if body = resp.Body; resp.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz says %d: %s", resp.Status, resp.Body)
		}
		return nil
	})
	return body, err
}

// outage is how long the bus is down.
const outage = 10 * time.Second

// T3 and E2 while an external NATS server is down. Fails when an endpoint answers 2xx before the acknowledgement, when
// the client buffers a publish, when /readyz checks only the process itself, or when the process has to be restarted.
func TestWithoutNATSTheDoorsSay503AndItRecovers(t *testing.T) {
	s := scoped(t)
	nats, err := env.StartNATS(s.Ctx, env.NATSOptions{SyncAlways: true})
	s.Must(err)
	t.Cleanup(func() { _ = nats.Stop() })
	s.startScoped(env.NotifierOptions{Args: []string{"--nats-url", nats.URL}})
	sink := s.AlertedSink()
	path := s.Receiver(s.Tenant, "app", "t", "")
	s.Push(path, "t", http.StatusOK)
	s.accepted("before")
	s.waitTold(sink, "before")
	s.Must(sink.Down())
	s.accepted("kept over the outage")

	s.Must(nats.Kill9())
	// Longer than every lease that replicas have on their part of the work.
	for gone := time.Now(); time.Since(gone) < outage; {
		begin := time.Now()
		s.unavailable("a webhook", s.Push(path, "t", http.StatusServiceUnavailable), true)
		s.unavailable("an event", s.failure("refused "+begin.String()), false)
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("the answers took %s", took)
		}
	}
	said, err := s.notReady(s.Within(20 * time.Second))
	s.Must(err)
	if !strings.Contains(said, "NATS") && !strings.Contains(said, "bus") {
		t.Errorf("/readyz does not say why: %s", said)
	}
	if strings.Contains(said, "] deliveries") {
		t.Errorf("a replica that may never be the worker waits for deliveries: %s", said)
	}
	live, err := s.Do(s.Ctx, http.MethodGet, s.HealthURL+"/healthz", nil, nil)
	s.Must(err)
	if live.Status != http.StatusOK {
		t.Errorf("/healthz says %d: a restart would not bring NATS back", live.Status)
	}

	s.Must(nats.Again(s.Ctx))
	s.Must(s.Ready(s.Ctx))
	s.Must(sink.Up(s.Ctx))
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
	s.accepted("after")
	s.waitTold(sink, "kept over the outage", "after")
	s.toldOnce(sink, "before", "kept over the outage", "after")
}

// Fails when the endpoint accepts more than the server does: the event would be refused after it was read, or never
// stored.
func TestAnEventAboveAServersOwnLimitIsRefusedAsTooLarge(t *testing.T) {
	s := scoped(t)
	nats, err := env.StartNATS(s.Ctx, env.NATSOptions{Config: "max_payload: 1MB"})
	s.Must(err)
	t.Cleanup(func() { _ = nats.Stop() })
	s.startScoped(env.NotifierOptions{Args: []string{"--nats-url", nats.URL}})
	sink := s.AlertedSink()
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "", "main@sha1:1")
	s.Must(err)
	for kib, status := range map[int]int{700: http.StatusAccepted, 1000: http.StatusRequestEntityTooLarge, 2000: http.StatusRequestEntityTooLarge} {
		event["message"] = strings.Repeat("x", kib<<10)
		body, err := json.Marshal(event)
		s.Must(err)
		resp, err := s.Do(s.Ctx, http.MethodPost, s.EventsURL+"/", nil, body)
		s.Must(err)
		if resp.Status != status {
			t.Errorf("an event of %d KiB: got %d %q, want %d", kib, resp.Status, resp.Body, status)
		}
	}
	s.waitTold(sink, strings.Repeat("x", 700<<10))
}

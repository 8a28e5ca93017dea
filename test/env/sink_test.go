package env_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/test/env"
)

func newSink(t *testing.T) *env.Sink {
	t.Helper()
	s, err := env.NewSink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Down() })
	return s
}

func post(ctx context.Context, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Test", "yes")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp, err
}

func TestSinkRecordsWholeRequests(t *testing.T) {
	s := newSink(t)
	if _, err := post(within(t, time.Minute), s.URL("/path?q=1"), "the body"); err != nil {
		t.Fatal(err)
	}
	got := s.Received()
	if len(got) != 1 {
		t.Fatalf("received %d requests, want 1", len(got))
	}
	r := got[0]
	if r.Method != "POST" || r.Path != "/path" || r.Query != "q=1" || string(r.Body) != "the body" ||
		r.Header.Get("X-Test") != "yes" || r.Status != 200 || r.Time.IsZero() {
		t.Errorf("received %+v", r)
	}
	s.Forget()
	if s.Count() != 0 {
		t.Error("Forget kept requests")
	}
}

func TestSinkAnswersAsConfigured(t *testing.T) {
	s := newSink(t)
	s.Answer(env.Answer{Status: 429, RetryAfter: 7 * time.Second, Delay: time.Millisecond, Body: "slow down"})
	resp, err := post(within(t, time.Minute), s.URL("/"), "")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "7" {
		t.Errorf("answered %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}

	s.AnswerWith(func(r env.Received) env.Answer {
		return env.Answer{Drop: r.Path == "/drop"}
	})
	if resp, err := post(within(t, time.Minute), s.URL("/drop"), ""); err == nil {
		t.Errorf("a dropped request was answered %s", resp.Status)
	}
	if resp, err := post(within(t, time.Minute), s.URL("/other"), ""); err != nil || resp.StatusCode != 200 {
		t.Errorf("another path: %v, %v", resp, err)
	}
	got := s.Received()
	if n := len(got); n != 3 || got[0].Status != 429 || got[1].Status != 0 || got[2].Status != 200 {
		t.Errorf("recorded %d requests: %+v", n, got)
	}
}

func TestSinkThatHangsLetsGoWhenItGoesDown(t *testing.T) {
	s := newSink(t)
	s.Answer(env.Answer{Hang: true})
	answered := make(chan error, 1)
	ctx := within(t, time.Minute)
	go func() {
		_, err := post(ctx, s.URL("/"), "")
		answered <- err
	}()
	if _, err := s.Wait(ctx, func(r []env.Received) bool { return len(r) == 1 }); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		t.Fatalf("a hanging sink let go: %v", err)
	default:
	}
	if err := s.Down(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
}

// Fails when a sink that goes down cuts the answer to a request that it counts: the sender would send it again.
func TestSinkThatGoesDownAnswersTheRequestsInItsRecords(t *testing.T) {
	s := newSink(t)
	ctx := within(t, time.Minute)
	s.Answer(env.Answer{Body: strings.Repeat("x", 1<<20)}) // takes a while to write
	for i := range 20 {
		answered := make(chan error, 1)
		go func() {
			_, err := post(ctx, s.URL("/"), "")
			// A connection that Down closes must not be taken for the next request.
			http.DefaultClient.CloseIdleConnections()
			answered <- err
		}()
		if _, err := s.Wait(ctx, func(r []env.Received) bool { return len(r) > i }); err != nil {
			t.Fatal(err)
		}
		if err := s.Down(); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Fatalf("request %d is in the records, its sender got %v", i, err)
		}
		if err := s.Up(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSinkComesBackOnItsPort(t *testing.T) {
	s := newSink(t)
	ctx, before := within(t, time.Minute), s.Addr()
	for range 3 {
		if err := s.Down(); err != nil {
			t.Fatal(err)
		}
		if _, err := post(ctx, s.URL("/"), ""); err == nil {
			t.Fatal("a sink that is down answered")
		}
		if err := s.Up(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := post(ctx, s.URL("/"), ""); err != nil {
			t.Fatal(err)
		}
	}
	if s.Addr() != before || s.Count() != 3 {
		t.Errorf("address %s, was %s; %d requests, want 3", s.Addr(), before, s.Count())
	}
}

func TestSinkCountsEveryRequestUnderLoad(t *testing.T) {
	s := newSink(t)
	ctx := within(t, time.Minute)
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for range 100 {
				if _, err := post(ctx, s.URL("/"), "x"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	got, err := s.Wait(ctx, func(r []env.Received) bool { return len(r) >= 1600 })
	senders.Wait()
	if err != nil || len(got) != 1600 || s.Count() != 1600 {
		t.Errorf("got %d, counted %d, %v", len(got), s.Count(), err)
	}
}

package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

func TestMain(m *testing.M) {
	load.Main()
	env.Main(m)
}

// Fails when a refused request ends a flood, or when the baseline does not check the signature.
func TestAFloodOfGoodAndBadRequestsLeavesASamplerItsAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, url, err := load.StartBare(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill9() })
	request := func(token string) []byte {
		r, err := load.Request(url, "/hook/x", env.GitHubHeader(token, "push", env.GitHubPush), env.GitHubPush)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	flood := load.Flood{
		Base: url, Requests: [][]byte{request("t"), request("wrong")}, From: netip.MustParseAddr("127.0.0.2"), Connections: 8,
	}
	done := make(chan load.Answers)
	go func() {
		answers, err := flood.Run(short)
		if err != nil {
			t.Error(err)
		}
		done <- answers
	}()
	samples, err := load.Sampler{Base: url, Request: request("t"), Every: 2 * time.Millisecond}.Run(short)
	answers := <-done
	if err != nil || len(samples) == 0 {
		t.Fatalf("got %d samples, %v", len(samples), err)
	}
	for _, s := range samples {
		if s.Status != http.StatusOK {
			t.Errorf("a sample was answered %d", s.Status)
		}
	}
	if answers[http.StatusOK] == 0 || answers[http.StatusBadRequest] == 0 || len(answers) != 2 {
		t.Errorf("the flood was answered %v, want 200 and 400", answers)
	}
	t.Logf("flood: %v, p50 %s, p99 %s", answers, load.Percentile(samples, 0.5), load.Percentile(samples, 0.99))
}

// Fails when a relay loses an event or answers before it posted it to the sink, or when a Sequence changes the order of
// a connection's requests.
func TestASequenceGoesThroughARelayInOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sink, err := env.NewSink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Down() })
	p, url, err := load.StartRelay(ctx, sink.URL("/relay"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill9() })
	s := load.Sequence{Base: url, Connections: 4, Count: 100, Request: func(_ []byte, connection, k int) []byte {
		r, err := load.Request(url, "/", nil, fmt.Sprintf(`{"reason":"%d","message":"%d"}`, connection, k))
		if err != nil {
			t.Error(err)
		}
		return r
	}}
	sent, err := s.Run(ctx)
	if err != nil || sent.Total() != s.Count {
		t.Fatalf("sent %d, %v", sent.Total(), err)
	}
	received := sink.Received()
	if len(received) != s.Count {
		t.Errorf("%d of %d arrived when the last one was answered", len(received), s.Count)
	}
	next := map[string]int{}
	for _, r := range received {
		var e struct{ Reason, Message string }
		if err := json.Unmarshal(r.Body, &e); err != nil {
			t.Fatal(err)
		}
		if e.Message != fmt.Sprint(next[e.Reason]) {
			t.Errorf("connection %s: got request %s, want %d", e.Reason, e.Message, next[e.Reason])
		}
		next[e.Reason]++
	}
}

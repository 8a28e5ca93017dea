package load_test

import (
	"context"
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

// Fails when a refused request ends a flood, or when the baseline does not check what it compares with.
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

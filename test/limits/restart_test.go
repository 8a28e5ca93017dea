package limits

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/load"
)

const manyReceivers = 500

// T4: fails when the port listens before every Receiver is compiled and unknown paths are answered 404 from the start,
// or when "all compiled" is concluded before the Secrets are read.
func TestT4ARestartWith500ReceiversAnswersNo404(t *testing.T) {
	s := scoped(t)
	s.startScoped(env.NotifierOptions{})
	paths := s.receivers(manyReceivers)
	for name, end := range map[string]func() error{"kill -9": s.Kill, "SIGTERM": s.Stop} {
		s.Must(end())
		begin := time.Now()
		s.Must(s.Relaunch())
		hammering, stop := context.WithCancel(s.Ctx)
		var answers load.Answers
		var wg sync.WaitGroup
		wg.Go(func() { answers = s.hammer(hammering, paths) })
		s.Must(s.Ready(s.Ctx))
		ready := time.Since(begin)
		// A ready process serves every path.
		last := s.flood(len(paths), paths, env.GitHubHeader("t", "push", env.GitHubPush), env.GitHubPush)
		stop()
		wg.Wait()
		t.Logf("after %s: ready in %s; webhooks from the first moment on: %v", name, ready.Round(time.Millisecond), answers)
		if answers[http.StatusNotFound] > 0 {
			t.Errorf("after %s %d webhooks were answered 404", name, answers[http.StatusNotFound])
		}
		for status := range answers {
			if status != 0 && status/100 != 2 && status != http.StatusServiceUnavailable {
				t.Errorf("after %s: got %d", name, status)
			}
		}
		if last[http.StatusOK]+last[http.StatusAccepted] != len(paths) {
			t.Errorf("after %s and ready: %v", name, last)
		}
	}
}

// hammer sends to all paths until ctx ends, with or without a listener.
func (s *fixture) hammer(ctx context.Context, paths []string) load.Answers {
	requests := s.requests(s.HooksURL, paths, env.GitHubHeader("t", "push", env.GitHubPush), env.GitHubPush)
	answers, err := load.Flood{
		Base: s.HooksURL, Requests: requests, From: netip.MustParseAddr("127.0.0.3"), Connections: 4,
	}.Run(ctx)
	if err != nil {
		s.Error(err)
	}
	return answers
}

// receivers makes Receivers, each with a Secret of its own, and returns their paths when all are ready.
func (s *fixture) receivers(count int) []string {
	s.Helper()
	paths := make([]string, count)
	g, ctx := errgroup.WithContext(s.Ctx)
	g.SetLimit(16)
	for i := range count {
		name := fmt.Sprintf("app-%d", i)
		paths[i] = env.HookPath("t", name, s.Tenant.Namespace)
		g.Go(func() error {
			if err := s.Tenant.Secret(ctx, name+"-token", map[string]string{"token": "t"}); err != nil {
				return err
			}
			return s.Tenant.Object(ctx, "Receiver", name, nil, env.GitHubSpec(name, name, ""))
		})
	}
	s.Must(g.Wait())
	s.Must(env.Eventually(s.Within(time.Minute), func(ctx context.Context) error {
		list, err := s.Tenant.Dynamic.Resource(env.Kinds["Receiver"]).Namespace(s.Tenant.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if conditions, err := env.Conditions(&list.Items[i]); err == nil && meta.IsStatusConditionTrue(conditions, "Ready") {
				ready++
			}
		}
		if ready < count {
			return fmt.Errorf("%d of %d Receivers are ready", ready, count)
		}
		return nil
	}))
	return paths
}

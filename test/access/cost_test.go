package access

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// rounds is the number of intervals in which requests are counted.
const rounds = 4

// asked counts the reviews in the API server's audit log over some intervals, by the tenant's account. Under "exists" it
// counts the reads of the accounts themselves.
func (s *fixture) asked() map[string]int {
	s.Helper()
	begin := time.Now()
	audit, err := s.System.Audit()
	s.Must(err)
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		if time.Since(begin) < rounds*interval {
			return fmt.Errorf("%s are not over", rounds*interval)
		}
		return nil
	}))
	entries, err := audit.Entries()
	s.Must(err)
	asked := map[string]int{}
	for _, e := range entries {
		switch user := e.Impersonated(); {
		case e.ObjectRef.Resource == "selfsubjectaccessreviews" && strings.Contains(user, ":"+s.Tenant.Namespace+":"):
			asked[user[strings.LastIndex(user, ":")+1:]]++
		case e.ObjectRef.Resource == "serviceaccounts" && e.ObjectRef.Namespace == s.Tenant.Namespace && e.Verb == "get":
			asked["exists"]++
		}
	}
	s.Logf("asked in %d intervals: %v", rounds, asked)
	return asked
}

// crowd makes ten Receivers of the account default, which is allowed to patch, and one of the account weak, which is
// not. It waits until they have been reviewed. The account of the first Receiver by name may be the one with which the
// process tests whether it may impersonate.
func (s *fixture) crowd() {
	s.Helper()
	for _, name := range []string{"first", "weak"} {
		s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, name))
	}
	s.receiver("a", "first", app)
	for i := range 10 {
		s.receiver(fmt.Sprint("well-", i), "default", app)
	}
	s.receiver("ill", "weak", app)
	s.denied("ill", "Forbidden")
	s.never("well-9")
}

// The cost: the reviews for Receivers in an interval are one request if all is well, however many Receivers there are of
// the account and kind, and a few otherwise. Fails when answers are not shared, or when a Receiver is reviewed at the
// pace of its status.
func TestRequestsToTheAPIServerAreBounded(t *testing.T) {
	s := setUp(t)
	s.crowd()
	asked := s.asked()
	for who, each := range map[string]int{"default": 1, "weak": 2, "exists": 3} {
		if n := asked[who]; n < each*(rounds-1) || n > each*(rounds+1) {
			t.Errorf("%s: asked %d times in %d intervals, want %d each", who, n, rounds, each)
		}
	}
}

// Fails when each replica reviews all namespaces.
func TestOneOfTwoReplicasAsks(t *testing.T) {
	s := ofItsOwn(t)
	nats, err := env.StartNATS(s.Ctx, env.NATSOptions{})
	s.Must(err)
	t.Cleanup(func() { _ = nats.Stop() })
	replica := env.NotifierOptions{Args: append([]string{
		"--nats-url", nats.URL,
	}, flags...)}
	s.Start(replica)
	s.Start(replica)
	s.crowd()
	for who, n := range s.asked() {
		if most := 2*rounds - 1; who == "default" && n > most {
			t.Errorf("asked %d times as %s in %d intervals", n, who, rounds)
		}
	}
}

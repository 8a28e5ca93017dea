package limits

import (
	"net/http"
	"testing"

	"notifier/test/env"
	"notifier/test/load"
)

// T4, T5, T6. Fails when a budget is shared between namespaces, when an address that floods is refused before its
// signature is checked, or when another tenant's webhook waits for the flood's publishes. Fails also when headers,
// bodies or the time for them are unlimited, or when bodies are kept without a limit. Fails also when every forged token
// causes a fetch of its issuer's keys, or when a rejected webhook leads to a request to the API server.
func TestT6AFloodIsNotFeltByAnotherTenant(t *testing.T) {
	// The API server shares the processors, so its work for an attack would be measured as well.
	s := alone(t, "--trusted-proxies", proxy.String()+"/32", "--trigger-qps", "100")
	bare, bareURL, err := load.StartBare(s.Ctx, floodToken)
	s.Must(err)
	t.Cleanup(func() { _ = bare.Kill9() })
	b := &attacked{fixture: s, bareURL: bareURL, quiet: s.NewTenant(), victims: s.newVictims()}
	b.path = s.Receiver(b.quiet, "app", floodToken, "")
	s.Push(b.path, floodToken, http.StatusOK)
	_, err = s.System.Settled(s.Ctx)
	s.Must(err)
	b.rest = b.goroutines()
	accepted := false
	for _, a := range s.attacks(b.victims) {
		t.Run(a.name, func(t *testing.T) { accepted = b.under(t).withstand(a, accepted) })
	}
	s.afterFailures(b.hot, b.path)
}

// afterFailures is T4 and T6: failures are charged after the check, so they cost nothing to a sender that knows the
// token. That is so on the attacked path and on another, though both senders have one address.
func (s *fixture) afterFailures(attacked, other string) {
	s.Helper()
	bad := s.requests(s.HooksURL, []string{attacked, other}, env.GitHubHeader("wrong", "push", env.GitHubPush), env.GitHubPush)
	answers, err := load.Flood{Base: s.HooksURL, Requests: bad, From: attacker, Connections: 8, Count: 10_000}.Run(s.Ctx)
	s.Must(err)
	if answers.Total() != 10_000 || answers[http.StatusBadRequest]+answers[http.StatusTooManyRequests] != 10_000 {
		s.Errorf("10,000 failures were answered %v", answers)
	}
	good := s.requests(s.HooksURL, []string{attacked, other}, env.GitHubHeader(floodToken, "push", env.GitHubPush), env.GitHubPush)
	answers, err = load.Flood{Base: s.HooksURL, Requests: good, From: attacker, Connections: 1, Count: 20}.Run(s.Ctx)
	s.Must(err)
	if answers[http.StatusOK]+answers[http.StatusAccepted] != 20 {
		s.Errorf("20 valid webhooks after 10,000 failures from the same address were answered %v", answers)
	}
}

package email

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// scramServer asks for a number of iterations, as often as times says, and refuses the result.
type scramServer struct {
	iterations   string
	times, asked int
}

func (s *scramServer) Next(response []byte) ([]byte, bool, error) {
	if s.asked > s.times {
		return nil, true, errTooWeak
	}
	if len(response) == 0 {
		return nil, false, nil // the client begins
	}
	_, nonce, _ := strings.Cut(string(response), "r=")
	nonce, _, _ = strings.Cut(nonce, ",")
	s.asked++
	return fmt.Appendf(nil, "r=%sx,s=c2FsdA==,i=%s", nonce, s.iterations), false, nil
}

var errTooWeak = fmt.Errorf("no")

// Fails when a server that a tenant chose keeps the processor busy with a login.
func TestT6ALoginThatTakesLongIsNotMade(t *testing.T) {
	ca := providertest.NewCA(t)
	for iterations, bounded := range map[string]bool{"4096": false, "100000": false, "100001": true, "30000000": true, "99999999999999999999": true} {
		m := start(t, pair(t, ca, "127.0.0.1"), true, func(m *mailbox) {
			m.mechs, m.scram = []string{"SCRAM-SHA-256"}, func() sasl.Server { return &scramServer{iterations: iterations} }
		})
		cfg := provider.Config{Username: "flux@example.com", Password: "s3cret", TLS: provider.TLS{CA: ca.PEM()}}
		began := time.Now()
		e := event.AsError(newSender(t, m, "smtps://%s", cfg).Send(t.Context(), info(t)))
		if got := strings.Contains(e.Error(), "more work"); got != bounded || time.Since(began) > 5*time.Second {
			t.Errorf("%s iterations: %q after %v", iterations, e.Error(), time.Since(began))
		}
	}
}

// Fails when a server that asks for the work again and again has it done each time.
func TestT6AServerThatRepeatsItsChallengeGetsNoMoreWork(t *testing.T) {
	ca := providertest.NewCA(t)
	server := &scramServer{iterations: "50000", times: 1000}
	m := start(t, pair(t, ca, "127.0.0.1"), true, func(m *mailbox) {
		m.mechs, m.scram = []string{"SCRAM-SHA-256"}, func() sasl.Server { return server }
	})
	cfg := provider.Config{Username: "flux@example.com", Password: "s3cret", TLS: provider.TLS{CA: ca.PEM()}}
	e := event.AsError(newSender(t, m, "smtps://%s", cfg).Send(t.Context(), info(t)))
	if !strings.Contains(e.Error(), "more work") {
		t.Errorf("after %d challenges: %q", server.asked, e.Error())
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// logLine has the tested fields of a line of the log.
type logLine struct {
	Level, Msg, Namespace string
}

// logLines returns the lines of the log with a message.
func (s *fixture) logLines(message string) (lines []logLine) {
	for text := range strings.Lines(s.Logs()) {
		var l logLine
		if json.Unmarshal([]byte(text), &l) == nil && l.Msg == message {
			lines = append(lines, l)
		}
	}
	return lines
}

// Fails when a start does not log in one line that it serves, or when each of some thirty roles has a line of its own at
// level info. Fails also when a line about a delivery or a webhook does not name the namespace, by which a tenant's
// lines are found.
func TestTheLogTellsAStartInOneLineAndWhoseDeliveriesAndWebhooksItTells(t *testing.T) {
	s := setUp(t)
	sink := s.AlertedSink()
	s.failure("to be logged")
	s.waitMessages(sink, "to be logged")
	path := s.Receiver(s.Tenant, "app", "token", "")
	own := func(message string) func(context.Context) error {
		return func(context.Context) error {
			for _, l := range s.logLines(message) {
				if l.Namespace == s.Tenant.Namespace {
					return nil
				}
			}
			return errors.New("no line " + message + " of the namespace")
		}
	}
	s.Must(env.Eventually(s.Within(soon), own("delivery")))
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error { // lines are left out while another test floods
		s.Push(path, "token", http.StatusOK)
		return own("webhook")(ctx)
	}))
	for _, message := range []string{"delivery", "webhook"} {
		for _, l := range s.logLines(message) {
			if l.Namespace == "" {
				t.Errorf("a line %q names no namespace", message)
			}
		}
	}
	s.Must(env.Eventually(s.Within(soon), func(context.Context) error {
		if n := len(s.logLines("serving")); n != 1 {
			return fmt.Errorf("%d lines say that it serves, want 1", n)
		}
		return nil
	}))
	consumers := s.logLines("consumer taken over")
	for _, l := range consumers {
		if !strings.EqualFold(l.Level, "debug") {
			t.Errorf("a consumer is told at level %s", l.Level)
		}
	}
	if len(consumers) == 0 {
		t.Error("no consumer is told at level debug either")
	}
}

// E7. Fails when the log quotes what a destination sends beyond its answer, such as the token that it was sent.
func TestE7TheLogDoesNotQuoteWhatADestinationSendsUnasked(t *testing.T) {
	s := setUp(t)
	const token = "only-for-the-destination"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"+r.Header.Get("Authorization"))
		_, _ = io.Copy(io.Discard, conn) // until the client closes it
		_ = conn.Close()
	}))
	defer echo.Close()
	s.Must(s.Tenant.Secret(s.Ctx, "token", map[string]string{"headers": "Authorization: " + token}))
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "echo", nil, fmt.Sprintf(
		`{"type":"generic","address":%q,"secretRef":{"name":"token"}}`, echo.URL)))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "echo", nil,
		`{"providerRef":{"name":"echo"},"eventSeverity":"info","eventSources":[{"kind":"Kustomization","name":"*"}]}`))
	s.Condition(s.Tenant, "Provider", "echo", "Serving", metav1.ConditionTrue, "")
	s.Condition(s.Tenant, "Alert", "echo", "Serving", metav1.ConditionTrue, "")
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.failure("to be echoed")
	_, err := s.Tenant.WaitCondition(s.Ctx, "Provider", "echo", "Delivering", metav1.ConditionTrue, "Delivered")
	s.Must(err)
	if strings.Contains(s.Logs(), token) {
		t.Error("the log has the token of a Provider")
	}
}

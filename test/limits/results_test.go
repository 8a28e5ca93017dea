package limits

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/test/env"
)

// webhookResult is a line of a message in stream WEBHOOKS.
type webhookResult struct {
	Namespace, Receiver, ID, Result, Reason string
	Targets                                 []string
	Count                                   int
}

// webhookResults waits until the results of a Receiver satisfy want, and returns them without time and names, message by
// message.
func (s *fixture) webhookResults(url, receiver string, want func(lines []webhookResult) bool) (messages [][]webhookResult) {
	s.Helper()
	nc, err := nats.Connect(url)
	s.Must(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	s.Must(err)
	s.Must(env.Eventually(s.Within(90*time.Second), func(ctx context.Context) (err error) {
		if messages, err = s.storedResults(ctx, js, receiver); err != nil {
			return err
		}
		var lines []webhookResult
		for _, m := range messages {
			lines = append(lines, m...)
		}
		if !want(lines) {
			return fmt.Errorf("results are %+v", messages)
		}
		return nil
	}))
	return messages
}

// storedResults returns the messages about a Receiver in stream WEBHOOKS.
func (s *fixture) storedResults(ctx context.Context, js jetstream.JetStream, receiver string) (messages [][]webhookResult, err error) {
	stream, err := js.Stream(ctx, "WEBHOOKS")
	if err != nil {
		return nil, err
	}
	for seq := uint64(1); ; seq++ {
		m, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject("notifier.webhook."+s.Tenant.Namespace+"."+receiver))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return messages, nil
		}
		if err != nil {
			return nil, err
		}
		seq = m.Sequence
		var lines []webhookResult
		for line := range bytes.Lines(m.Data) {
			var w webhookResult
			if err := json.Unmarshal(line, &w); err != nil {
				return nil, err
			}
			if w.Namespace != s.Tenant.Namespace || w.Receiver != receiver {
				return nil, fmt.Errorf("a result of %s/%s", w.Namespace, w.Receiver)
			}
			w.Namespace, w.Receiver = "", ""
			lines = append(lines, w)
		}
		messages = append(messages, lines)
	}
}

// identified sends a push with the sender's own ID for it.
func (s *fixture) identified(path, token, kind, id string, status int) {
	s.Helper()
	header := env.GitHubHeader(token, kind, env.GitHubPush)
	header.Set("X-GitHub-Delivery", id)
	resp, err := s.Do(s.Ctx, http.MethodPost, s.HooksURL+path, header, []byte(env.GitHubPush))
	s.Must(err)
	if resp.Status != status {
		s.Errorf("webhook %s: got %d %q, want %d", id, resp.Status, resp.Body, status)
	}
}

// Was my webhook received? Fails when the stream does not have the result of a webhook and the sender's ID. T5: fails
// when a flood of forged webhooks writes more than one message a minute, when its IDs are kept, and when a webhook is
// not counted.
func TestT5TheResultsOfWebhooksAreKeptAndAFloodIsAFewLines(t *testing.T) {
	s := scoped(t)
	server, err := env.StartNATS(s.Ctx, env.NATSOptions{})
	s.Must(err)
	t.Cleanup(func() { _ = server.Stop() })
	s.startScoped(env.NotifierOptions{Args: []string{"--nats-url", server.URL}})
	path, suspended := s.Receiver(s.Tenant, "app", "t", ""), s.Receiver(s.Tenant, "off", "t", `,"suspend":true`)
	s.identified(path, "t", "ping", "the-ping", http.StatusOK)
	s.identified(path, "t", "push", "the-push", http.StatusOK)
	s.identified(path, "t", "push", "the-push", http.StatusOK)
	s.identified(suspended, "t", "push", "refused", http.StatusServiceUnavailable)

	var told []webhookResult
	s.webhookResults(server.URL, "app", func(lines []webhookResult) bool { told = lines; return len(lines) == 3 })
	targets := []string{"GitRepository/app"}
	if diff := cmp.Diff([]webhookResult{
		{ID: "the-ping", Result: "ping", Count: 1},
		{ID: "the-push", Result: "accepted", Targets: targets, Count: 1},
		{ID: "the-push", Result: "duplicate", Targets: targets, Count: 1},
	}, told); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	s.webhookResults(server.URL, "off", func(lines []webhookResult) bool { told = lines; return len(lines) == 1 })
	if diff := cmp.Diff([]webhookResult{{Result: "suspended", Reason: "receiver is suspended", Count: 1}}, told); diff != "" {
		t.Errorf("results of a suspended Receiver (-want +got):\n%s", diff)
	}

	const forged = 2000
	begin := time.Now()
	header := env.GitHubHeader("wrong", "push", env.GitHubPush)
	header.Set("X-GitHub-Delivery", "forged-id")
	s.flood(forged, []string{path}, header, env.GitHubPush)
	counted := 0
	after := s.webhookResults(server.URL, "app", func(lines []webhookResult) bool {
		counted = 0
		for _, w := range lines[3:] {
			counted += w.Count
			if w.ID != "" || len(w.Targets) > 0 || w.Result != "unauthentic" && w.Result != "failures_over_budget" {
				t.Errorf("a forged webhook is told of as %+v", w)
			}
		}
		return counted == forged
	})
	// The accepted webhooks are in two reports at most, for the Receiver was ready only then.
	if bound := 2 + 1 + int(time.Since(begin)/env.RefusalGap); len(after) > bound {
		t.Errorf("%d forged webhooks: %d messages in %s, want %d at most", forged, len(after), time.Since(begin), bound)
	}
}

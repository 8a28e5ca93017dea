package receiver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"notifier/internal/receiver/answer"
)

// Fails when a tenant's flood, refused as a flood or for want of its issuer, uses up the log lines about another tenant's unstored
// webhooks.
func TestAFloodDoesNotHideWhatWasNotStored(t *testing.T) {
	var lines bytes.Buffer
	log := answer.NewLog(slog.New(slog.NewTextHandler(&lines, nil)), "webhook")
	flooded, other := &route{hook: newHook(t, "flood/hook")}, &route{hook: newHook(t, "other/hook")}
	for range 1000 {
		logWebhook(t.Context(), log, &webhook{rt: flooded, answer: hookBusy})
		logWebhook(t.Context(), log, &webhook{rt: flooded, answer: hookIssuer})
	}
	logWebhook(t.Context(), log, &webhook{rt: other, answer: hookUnavailable})
	if !strings.Contains(lines.String(), "level=WARN msg=webhook namespace=other") {
		t.Errorf("no line tells of it; the last ones:\n%s", lines.String()[max(0, lines.Len()-500):])
	}
	if n := strings.Count(lines.String(), "\n"); n > 200 {
		t.Errorf("%d lines tell of the flood", n)
	}
}

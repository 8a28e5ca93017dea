package receiver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

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

// T6: fails when the webhooks of one tenant use up the log lines about another's, or a flood of them is a flood of lines.
func TestT6AFloodOfWebhooksLeavesOthersTheirLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time stands still
		var lines bytes.Buffer
		log := answer.NewLog(slog.New(slog.NewTextHandler(&lines, nil)), "webhook")
		flooded, other := &route{hook: newHook(t, "flood/hook")}, &route{hook: newHook(t, "other/hook")}
		for _, of := range []*answer.Answer{hookAccepted, hookUnavailable} {
			lines.Reset()
			for range 1000 {
				logWebhook(t.Context(), log, &webhook{rt: flooded, answer: of})
			}
			logWebhook(t.Context(), log, &webhook{rt: other, answer: of})
			if !strings.Contains(lines.String(), "namespace=other") {
				t.Errorf("%s: no line tells of the other's webhook", of.Result)
			}
			if n := strings.Count(lines.String(), "namespace=flood"); n != 100 {
				t.Errorf("%s: %d lines tell of the flood", of.Result, n)
			}
		}
	})
}

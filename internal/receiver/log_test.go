package receiver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"notifier/internal/receiver/answer"
)

// Fails when one tenant's flood, which is refused for being one or for want of its issuer, takes the lines that tell of what was not stored of another.
func TestAFloodDoesNotHideWhatWasNotStored(t *testing.T) {
	var lines bytes.Buffer
	log := answer.NewLog(slog.New(slog.NewTextHandler(&lines, nil)))
	flooded, other := newHook(t, "flood/hook"), newHook(t, "other/hook")
	for range 1000 {
		logWebhook(t.Context(), log, flooded, hookBusy, nil)
		logWebhook(t.Context(), log, flooded, hookIssuer, nil)
	}
	logWebhook(t.Context(), log, other, hookUnavailable, nil)
	if !strings.Contains(lines.String(), "level=WARN msg=webhook namespace=other") {
		t.Errorf("no line tells of it; the last ones:\n%s", lines.String()[max(0, lines.Len()-500):])
	}
	if n := strings.Count(lines.String(), "\n"); n > 200 {
		t.Errorf("%d lines tell of the flood", n)
	}
}

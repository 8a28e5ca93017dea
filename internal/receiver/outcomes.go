package receiver

import (
	"context"
	"log/slog"
)

// logWebhook logs the outcome of a request on a known path. The path itself is a secret and stays out.
func logWebhook(ctx context.Context, l *outcomeLog, h *Hook, a *answer, err error) {
	level := a.level()
	if a == hookSuspended {
		level = slog.LevelDebug // its owner asked for it
	}
	left, ok := l.admit(ctx, level)
	if !ok {
		return
	}
	l.write(ctx, outcomeLine{level: level, message: "webhook", left: left, attrs: []slog.Attr{
		slog.String("namespace", h.Namespace), slog.String("receiver", h.Name), slog.String("type", h.Verifier.Type()),
	}}, a, err)
}

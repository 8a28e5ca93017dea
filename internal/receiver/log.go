package receiver

import (
	"context"
	"log/slog"

	"notifier/internal/receiver/answer"
)

// logWebhook logs the outcome of a request on a known path. The path itself is a secret and stays out.
func logWebhook(ctx context.Context, l *answer.Log, h *Hook, a *answer.Answer, err error) {
	level := a.Level()
	if a == hookSuspended {
		level = slog.LevelDebug // its owner asked for it
	}
	left, ok := l.Admit(ctx, level)
	if !ok {
		return
	}
	l.Write(ctx, answer.Line{Level: level, Message: "webhook", Left: left, Attrs: []slog.Attr{
		slog.String("namespace", h.Namespace), slog.String("receiver", h.Name), slog.String("type", h.Verifier.Type()),
	}}, a, err)
}

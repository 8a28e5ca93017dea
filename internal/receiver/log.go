package receiver

import (
	"context"
	"log/slog"

	"notifier/internal/receiver/answer"
)

// logWebhook logs the outcome of a request on a known path. The path itself is a secret and stays out.
func logWebhook(ctx context.Context, l *answer.Log, one *webhook) {
	h, level := one.rt.hook, one.answer.Level()
	if one.answer == hookSuspended {
		level = slog.LevelDebug // the owner suspended it
	}
	l.Write(ctx, answer.Line{Level: level, Namespace: h.Namespace}, func() []slog.Attr {
		return []slog.Attr{
			slog.String("namespace", h.Namespace), slog.String("receiver", h.Name), slog.String("type", h.Verifier.Type()),
		}
	}, one.answer, one.err)
}

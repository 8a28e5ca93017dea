package events

import (
	"context"
	"log/slog"

	"notifier/internal/event"
	"notifier/internal/receiver/answer"
)

// logPost logs the outcome of a request to the events endpoint. The event's message belongs to its namespace and stays out.
func logPost(ctx context.Context, l *answer.Log, a *answer.Answer, record *event.Record, err error) {
	level := a.Level()
	if level == slog.LevelInfo {
		level = slog.LevelDebug // the delivery of an accepted event is logged later
	}
	left, ok := l.Admit(ctx, level)
	if !ok {
		return
	}
	var attrs []slog.Attr
	if record != nil {
		o := record.Event.InvolvedObject
		attrs = []slog.Attr{
			slog.String("kind", o.Kind), slog.String("namespace", o.Namespace), slog.String("name", o.Name),
			slog.String("id", record.ID), slog.Bool("known", record.Known),
		}
	}
	l.Log.LogAttrs(ctx, level, "event posted", append(attrs, a.Attrs(left, err)...)...)
}

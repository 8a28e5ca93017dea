package receiver

import (
	"context"
	"log/slog"

	"notifier/internal/event"
)

// logPost logs the outcome of a request to the events door. The event's message is its namespace's own and stays out.
func logPost(ctx context.Context, l *outcomeLog, a *answer, record *event.Record, err error) {
	level := a.level()
	if level == slog.LevelInfo {
		level = slog.LevelDebug // what became of an accepted event is told where it is delivered
	}
	left, ok := l.admit(ctx, level)
	if !ok {
		return
	}
	line := outcomeLine{level: level, message: "event posted", left: left}
	if record != nil {
		o := record.Event.InvolvedObject
		line.attrs = append(line.attrs, slog.String("kind", o.Kind), slog.String("namespace", o.Namespace), slog.String("name", o.Name),
			slog.String("id", record.ID), slog.Bool("known", record.Known))
	}
	l.write(ctx, line, a, err)
}

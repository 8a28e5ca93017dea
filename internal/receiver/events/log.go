package events

import (
	"log/slog"
	"net/http"

	"notifier/internal/event"
	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
)

// logPost logs the outcome of a request to the events endpoint, with the address of the sender's Pod: nothing forwards events. The event's
// message belongs to its namespace and stays out.
func logPost(l *answer.Log, r *http.Request, a *answer.Answer, record *event.Record, err error) {
	line := answer.Line{Level: a.Level()}
	if line.Level == slog.LevelInfo {
		line.Level = slog.LevelDebug // the delivery of an accepted event is logged later
	}
	if record != nil && record.Known { // else the sender may have invented it
		line.Namespace = record.Event.InvolvedObject.Namespace
	}
	l.Write(r.Context(), line, func() []slog.Attr {
		attrs := []slog.Attr{slog.String("client", limit.Peer(r).String())}
		if record != nil {
			o := record.Event.InvolvedObject
			attrs = append(attrs,
				slog.String("kind", o.Kind), slog.String("namespace", o.Namespace), slog.String("name", o.Name),
				slog.String("id", record.ID), slog.Bool("known", record.Known))
		}
		return attrs
	}, a, err)
}

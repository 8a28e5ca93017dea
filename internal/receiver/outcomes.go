package receiver

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/event"
)

// outcomeLog writes one line per outcome, as long as outcomes are few: a flood must not turn into a flood of lines. What is
// left out is counted on the next line. Metrics count everything.
type outcomeLog struct {
	log *slog.Logger
	// routine and trouble are kept apart, so that a flood of what is well does not hide what is not.
	routine, trouble *rate.Limiter
	left             atomic.Int64
}

// linesPerSecond and lineBurst bound the lines of one log.
const (
	linesPerSecond = 20
	lineBurst      = 100
)

func newOutcomeLog(log *slog.Logger) *outcomeLog {
	return &outcomeLog{log: log, routine: rate.NewLimiter(linesPerSecond, lineBurst), trouble: rate.NewLimiter(linesPerSecond, lineBurst)}
}

// admit reports whether a line of this level is written now, and how many were left out before it.
func (l *outcomeLog) admit(ctx context.Context, level slog.Level) (left int64, ok bool) {
	if !l.log.Enabled(ctx, level) {
		return 0, false
	}
	limiter := l.routine
	if level >= slog.LevelWarn {
		limiter = l.trouble
	}
	if !limiter.AllowN(time.Now(), 1) {
		l.left.Add(1)
		return 0, false
	}
	return l.left.Swap(0), true
}

// level is where an answer belongs: what we failed to do is a warning, everything else is what senders did. Too many at once is their
// doing, and an issuer that does not answer is their choice: neither may hide what was not stored of others.
func (a *answer) level() slog.Level {
	if a.status == http.StatusServiceUnavailable && a != hookBusy && a != hookIssuer {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// webhook logs the outcome of a request on a known path. The path itself is a secret and stays out.
func (l *outcomeLog) webhook(ctx context.Context, h *Hook, a *answer, err error) {
	level := a.level()
	if a == hookSuspended {
		level = slog.LevelDebug // its owner asked for it
	}
	left, ok := l.admit(ctx, level)
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("namespace", h.Namespace), slog.String("receiver", h.Name), slog.String("type", h.Verifier.Type()),
		slog.String("result", a.result), slog.Int("status", a.status), slog.Int64("lines_left_out", left),
	}
	if a.reason != "" {
		attrs = append(attrs, slog.String("reason", a.reason))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	l.log.LogAttrs(ctx, level, "webhook", attrs...)
}

// post logs the outcome of a request to the events door. The event's message is its namespace's own and stays out.
func (l *outcomeLog) post(ctx context.Context, a *answer, record *event.Record, err error) {
	level := a.level()
	if level == slog.LevelInfo {
		level = slog.LevelDebug // what became of an accepted event is told where it is delivered
	}
	left, ok := l.admit(ctx, level)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("result", a.result), slog.Int("status", a.status), slog.Int64("lines_left_out", left)}
	if a.reason != "" {
		attrs = append(attrs, slog.String("reason", a.reason))
	}
	if record != nil {
		o := record.Event.InvolvedObject
		attrs = append(attrs, slog.String("kind", o.Kind), slog.String("namespace", o.Namespace), slog.String("name", o.Name),
			slog.String("id", record.ID), slog.Bool("known", record.Known))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	l.log.LogAttrs(ctx, level, "event posted", attrs...)
}

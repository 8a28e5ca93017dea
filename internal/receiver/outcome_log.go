package receiver

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// outcomeLog writes one line per outcome, as long as outcomes are few: a flood must not turn into a flood of lines. What is
// left out is counted on the next line. Metrics count everything.
type outcomeLog struct {
	log *slog.Logger
	// routine and trouble are kept apart, so that a flood of what is well does not hide what is not.
	routine, trouble *rate.Limiter
	left             atomic.Int64
}

// outcomeLine is what a line says beside the answer.
type outcomeLine struct {
	level   slog.Level
	message string
	// left is how many lines were left out before.
	left  int64
	attrs []slog.Attr
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

// write writes the line of an answer, with what else there is to say. left is what admit returned.
func (l *outcomeLog) write(ctx context.Context, line outcomeLine, a *answer, err error) {
	attrs := append(line.attrs, slog.String("result", a.result), slog.Int("status", a.status), slog.Int64("lines_left_out", line.left))
	if a.reason != "" {
		attrs = append(attrs, slog.String("reason", a.reason))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	l.log.LogAttrs(ctx, line.level, line.message, attrs...)
}

package answer

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Log writes one line per outcome, up to a rate: a flood of requests must not become a flood of lines. Omitted lines are counted on the
// next line. Metrics count everything.
type Log struct {
	Log *slog.Logger
	// routine and trouble are separate, so that a flood of successes does not hide failures.
	routine, trouble *rate.Limiter
	left             atomic.Int64
}

// linesPerSecond and lineBurst bound the lines of one log.
const (
	linesPerSecond = 20
	lineBurst      = 100
)

// NewLog returns a Log that writes at most 20 lines a second, 100 at once, of warnings and of other lines each.
func NewLog(log *slog.Logger) *Log {
	return &Log{Log: log, routine: rate.NewLimiter(linesPerSecond, lineBurst), trouble: rate.NewLimiter(linesPerSecond, lineBurst)}
}

// Admit reports whether a line of this level is written now, and the number of omitted lines before it.
func (l *Log) Admit(ctx context.Context, level slog.Level) (left int64, ok bool) {
	if !l.Log.Enabled(ctx, level) {
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

// Attrs returns an answer's attributes for a log line. left is the result of Admit; err may be nil.
func (a *Answer) Attrs(left int64, err error) []slog.Attr {
	attrs := []slog.Attr{slog.String("result", a.Result), slog.Int("status", a.Status), slog.Int64("lines_left_out", left)}
	if a.Reason != "" {
		attrs = append(attrs, slog.String("reason", a.Reason))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	return attrs
}

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
	Log     *slog.Logger
	message string
	// routine and trouble are separate, so that a flood of successes does not hide failures.
	routine, trouble *rate.Limiter
	left             atomic.Int64
}

// linesPerSecond and lineBurst bound the lines of one log.
const (
	linesPerSecond = 20
	lineBurst      = 100
)

// NewLog returns a Log of lines with one message. It writes at most 20 a second, 100 at once, of warnings and of other lines each.
func NewLog(log *slog.Logger, message string) *Log {
	return &Log{Log: log, message: message, routine: rate.NewLimiter(linesPerSecond, lineBurst), trouble: rate.NewLimiter(linesPerSecond, lineBurst)}
}

// Write writes the line of an outcome, if its level and the rate admit it: first attrs, which is called only then. err may be nil.
func (l *Log) Write(ctx context.Context, level slog.Level, attrs func() []slog.Attr, a *Answer, err error) {
	if !l.Log.Enabled(ctx, level) {
		return
	}
	limiter := l.routine
	if level >= slog.LevelWarn {
		limiter = l.trouble
	}
	if !limiter.AllowN(time.Now(), 1) {
		l.left.Add(1)
		return
	}
	line := append(attrs(), slog.String("result", a.Result), slog.Int("status", a.Status), slog.Int64("lines_left_out", l.left.Swap(0)))
	if a.Reason != "" {
		line = append(line, slog.String("reason", a.Reason))
	}
	if err != nil {
		line = append(line, slog.Any("error", err))
	}
	l.Log.LogAttrs(ctx, level, l.message, line...) //nolint:sloglint // a constant of the endpoint
}

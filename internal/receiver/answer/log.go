package answer

import (
	"context"
	"log/slog"
	"sync/atomic"

	"notifier/internal/fair"
)

// Log writes one line per outcome, up to a rate for each namespace: a flood of requests must not become a flood of lines. Omitted lines are
// counted on the next line, of any namespace. Metrics count everything.
type Log struct {
	Log     *slog.Logger
	message string
	lines   *fair.Limiters[Line]
	left    atomic.Int64
}

// Line is a line of a Log: its level, and the namespace that it is about, empty for none that is known.
type Line struct {
	Level     slog.Level
	Namespace string
}

// linesPerSecond and lineBurst bound the lines about one namespace, for as many namespaces as maxLogged.
const (
	linesPerSecond = 20
	lineBurst      = 100
	maxLogged      = 1 << 14
)

// NewLog returns a Log of lines with one message. About a namespace it writes at most 20 a second, 100 at once, of warnings and of other
// lines each.
func NewLog(log *slog.Logger, message string) *Log {
	return &Log{Log: log, message: message, lines: fair.NewLimiters[Line](linesPerSecond, lineBurst, maxLogged)}
}

// Write writes the line of an outcome, if its level and the rate of its namespace admit it: first attrs, which is called only then. err may be
// nil.
func (l *Log) Write(ctx context.Context, of Line, attrs func() []slog.Attr, a *Answer, err error) {
	if !l.Log.Enabled(ctx, of.Level) {
		return
	}
	rated := Line{Namespace: of.Namespace}
	if of.Level >= slog.LevelWarn { // apart, so that a flood of successes does not hide failures
		rated.Level = slog.LevelWarn
	}
	if !l.lines.Allow(rated) {
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
	l.Log.LogAttrs(ctx, of.Level, l.message, line...) //nolint:sloglint // a constant of the endpoint
}

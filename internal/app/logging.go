package app

import (
	"fmt"
	"io"
	"log/slog"
)

// parseLevel reads the levels that Flux names; warn is allowed as well.
func parseLevel(level string) (slog.Level, error) {
	switch level {
	case "trace", "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%q is not one of debug, info, warn, error", level)
}

// newLogger writes to w; both arguments were validated.
func newLogger(w io.Writer, level, encoding string) *slog.Logger {
	lowest, err := parseLevel(level)
	if err != nil {
		lowest = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: lowest}
	if encoding == "console" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

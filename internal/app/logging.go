package app

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
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

// tellSettings logs what was set and does not do what its author may expect.
func tellSettings(log *slog.Logger, o Options, env func(string) string) {
	for _, f := range o.AcceptedFlags {
		log.Info("a flag of Flux's notification-controller is accepted", "flag", f.Name, "meaning", f.Meaning)
	}
	var set []string
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		if env(name) != "" {
			set = append(set, name) // not its value, which may hold a password
		}
	}
	if len(set) > 0 && !o.EnvironmentProxy {
		log.Warn("destinations of Providers are not reached through the environment's proxy; "+
			"--destinations-use-environment-proxy has them reached through it", "set", strings.Join(set, ", "))
	}
}

package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// LogLevels lists the values of Options.LogLevel: those of Flux, and warn.
const LogLevels = "trace, debug, info, warn or error"

// parseLevel parses one of LogLevels.
func parseLevel(level string) (slog.Level, error) {
	switch level {
	case "trace", "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "error": // Flux has no level warn, and a warning here is an error there
		return slog.LevelWarn, nil
	}
	return 0, fmt.Errorf("%q is none of %s", level, LogLevels)
}

// newLogger returns a logger that writes to w; level and encoding must be valid. The lines are those of Flux's controllers, for flux logs
// and other readers: ts, level, msg and error, and controllerKind, name and namespace of the object that a line is about.
func newLogger(w io.Writer, level, encoding string) *slog.Logger {
	lowest, _ := parseLevel(level)
	o := &slog.HandlerOptions{Level: lowest, ReplaceAttr: asFlux}
	if encoding == "console" {
		return slog.New(aboutHandler{Handler: slog.NewTextHandler(w, o)})
	}
	return slog.New(aboutHandler{Handler: slog.NewJSONHandler(w, o)})
}

// The keys of a line that several functions here use.
const (
	keyError     = "error"
	keyKind      = "kind"
	keyName      = "name"
	keyNamespace = "namespace"
)

// timeFormat is ISO 8601 in milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// maxLogValue bounds one value of a line, in which a byte may be written as six, and maxLogStack a stack: flux logs ends at a line of more
// than 64 KiB.
const (
	maxLogValue = 4 << 10
	maxLogStack = 24 << 10
)

// asFlux gives an attribute its key and form in Flux's logs. flux logs ends at a line where one of the keys that it reads has a value other
// than a string.
func asFlux(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 {
		switch a.Key {
		case slog.TimeKey:
			if t, ok := a.Value.Any().(time.Time); ok {
				return slog.String("ts", t.UTC().Format(timeFormat))
			}
		case slog.LevelKey:
			if level, ok := a.Value.Any().(slog.Level); ok {
				return slog.String(slog.LevelKey, levelName(level))
			}
		case "err": // client-go's
			return logText(keyError, a.Value, maxLogValue)
		case "stack":
			return logText(a.Key, a.Value, maxLogStack)
		case keyError, keyName, keyNamespace, "logger", "controller", "controllerKind":
			return logText(a.Key, a.Value, maxLogValue)
		}
	}
	if _, ok := a.Value.Any().(error); ok || a.Value.Kind() == slog.KindString {
		return logText(a.Key, a.Value, maxLogValue)
	}
	return a
}

// logText returns an attribute as text of a bounded length, in bytes.
func logText(key string, v slog.Value, most int) slog.Attr {
	return slog.String(key, event.Truncate(text(v), most, " (cut)"))
}

// levelName returns one of the three levels that Flux's logs and flux logs --level have: a warning here is an error there.
func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	default:
		return "error"
	}
}

func text(v slog.Value) string {
	if err, ok := v.Any().(error); ok {
		return err.Error()
	}
	return v.String()
}

// ownerKinds are the attributes that name one of our objects, in the order of their priority. A line's own kind and name come before them.
var ownerKinds = []struct{ key, kind string }{
	{"receiver", v1.ReceiverKind}, {"alert", v1.AlertKind}, {"provider", v1.ProviderKind},
}

// aboutHandler adds to each line about an object the keys with which Flux's controllers name theirs.
type aboutHandler struct {
	slog.Handler
	// attrs are those of the logger; groups says that it has a group, so that they say nothing about the line.
	attrs  []slog.Attr
	groups bool
}

func (h aboutHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(slices.Clip(h.attrs), attrs...)
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func (h aboutHandler) WithGroup(name string) slog.Handler {
	h.groups = h.groups || name != ""
	h.Handler = h.Handler.WithGroup(name)
	return h
}

func (h aboutHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.groups {
		return h.Handler.Handle(ctx, r)
	}
	said := map[string]string{}
	note := func(a slog.Attr) bool {
		switch a.Key {
		case keyKind, keyName, "receiver", "alert", "provider":
			said[a.Key] = text(a.Value)
		}
		return true
	}
	for _, a := range h.attrs {
		note(a)
	}
	r.Attrs(note)
	kind, name := said[keyKind], said[keyName]
	for _, owner := range ownerKinds {
		if of := said[owner.key]; kind+name == "" && of != "" {
			kind, name = owner.kind, of
		}
	}
	if kind != "" && name != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("controller", strings.ToLower(kind)), slog.String("controllerKind", kind))
		if said[keyName] == "" {
			r.AddAttrs(slog.String(keyName, name))
		}
	}
	return h.Handler.Handle(ctx, r)
}

package provider

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"notifier/internal/event"
)

// EventJSON returns the event as JSON, for types that pass it on unchanged. If it is longer than maxBytes the message is cut at a
// character's boundary and gets a mark.
func EventJSON(e event.Event, maxBytes int) ([]byte, error) {
	if most := max(maxBytes, 0); len(e.Message) > most { // it is not encoded whole: it may have megabytes
		e.Message = e.Message[:most+1]
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, event.NewError(event.Permanent, LabelPayload, "event could not be encoded", err)
	}
	if len(body) <= maxBytes {
		return body, nil
	}
	message := strings.ToValidUTF8(e.Message, "\uFFFD")
	e.Message = truncated
	if body, err = json.Marshal(e); err != nil || len(body) > maxBytes {
		return nil, event.NewError(event.Permanent, LabelPayload, "event is larger than the destination takes, even without its message", err)
	}
	room := maxBytes - len(body)
	for i, r := range message {
		if room -= encodedLen(r); room < 0 {
			message = message[:i]
			break
		}
	}
	e.Message = message + truncated
	return json.Marshal(e)
}

// encodedLen returns the number of bytes that encoding/json writes for a character.
func encodedLen(r rune) int {
	switch {
	case strings.ContainsRune("\"\\\b\f\n\r\t", r):
		return len(`\n`)
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
		return len(`\u0000`)
	default:
		return utf8.RuneLen(r)
	}
}

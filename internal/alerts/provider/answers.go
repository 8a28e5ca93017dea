package provider

import (
	"bytes"
	"encoding/json"
	"time"

	"notifier/internal/event"
)

// EncodeJSON encodes a request's body without the escapes for HTML, which make a message longer and are of no use to a destination. Its
// error is an *event.Error.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, event.NewError(event.Permanent, LabelPayload, "message could not be encoded", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Seconds returns a wait that a destination asks for as a number, from 0 to MaxRetryAfter whatever it is.
func Seconds(s float64) time.Duration {
	switch {
	case s >= MaxRetryAfter.Seconds():
		return MaxRetryAfter
	case s > 0:
		return time.Duration(s * float64(time.Second))
	default: // no number as well
		return 0
	}
}

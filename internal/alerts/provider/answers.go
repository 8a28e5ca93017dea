package provider

import (
	"bytes"
	"encoding/json"
	"time"

	"notifier/internal/event"
)

// encodeJSON encodes a request's body. Escapes for HTML make a message longer and are of no use to a destination. The error is an
// *event.Error.
func encodeJSON(v any, escapeHTML bool) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(escapeHTML)
	if err := encoder.Encode(v); err != nil {
		return nil, event.NewError(event.Permanent, LabelPayload, "message could not be encoded", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeJSON decodes an answer into out, unless out is nil. Its error is an *event.Error. The error names the expected author of the
// answer, which whose gives, such as "GitHub's API".
func DecodeJSON(answer []byte, out any, whose string) error {
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return event.NewError(event.Retry, LabelReply, "answer is not one of "+whose, err)
	}
	return nil
}

// Seconds returns the wait that a destination asks for as a number of seconds. The result is between 0 and MaxRetryAfter for every
// number.
func Seconds(s float64) time.Duration {
	switch {
	case s >= MaxRetryAfter.Seconds():
		return MaxRetryAfter
	case s > 0:
		return time.Duration(s * float64(time.Second))
	default: // also NaN
		return 0
	}
}

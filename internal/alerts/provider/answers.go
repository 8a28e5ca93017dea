package provider

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"notifier/internal/event"
)

// encodeJSON encodes a request's body. Escapes for HTML make a message longer and are of no use to a destination. The error is an
// *event.Error.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
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

// decodeAt decodes the value at a path of keys in JSON, with dots between them, into out.
func decodeAt(answer []byte, path string, out any) error {
	for key := range strings.SplitSeq(path, ".") {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(answer, &fields); err != nil {
			return err
		}
		answer = fields[key]
	}
	return json.Unmarshal(answer, out)
}

// WaitAt returns a ClientOptions.Wait that reads the seconds to wait at a path of keys in JSON, with dots between them, if the status is 429.
func WaitAt(path string) func(status int, header http.Header, answer []byte) (time.Duration, bool) {
	return func(status int, _ http.Header, answer []byte) (time.Duration, bool) {
		var seconds float64
		_ = decodeAt(answer, path, &seconds) // another server on the way may answer in its own form
		return Seconds(seconds), status == http.StatusTooManyRequests
	}
}

// WaitIn returns a ClientOptions.Wait that reads a header in the form of Retry-After, if the status is 429.
func WaitIn(name string) func(status int, header http.Header, answer []byte) (time.Duration, bool) {
	return func(status int, header http.Header, _ []byte) (time.Duration, bool) {
		return ParseRetryAfter(header.Get(name), time.Now()), status == http.StatusTooManyRequests
	}
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

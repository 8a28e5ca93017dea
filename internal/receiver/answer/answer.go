package answer

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// Answer is what a request is told, and how it is counted.
type Answer struct {
	Status int
	// Result is the label under which the request is counted, from a closed set.
	Result string
	// Reason is the stable text for the sender's operator, empty where nothing may be told.
	Reason string
	Body   []byte
	// retryAfter is the Retry-After header, empty for none.
	retryAfter string
	// Folded says of an accepted webhook that it was over its Receiver's budget, duplicate that it was accepted before, ping that it only
	// tried the connection.
	Folded, Duplicate, Ping bool
	// routine says of a 503 that senders caused it.
	routine bool
}

// jsonType is shared by all answers; net/http does not change it.
var jsonType = []string{"application/json"}

// Said is an answer without an error: body is JSON.
func Said(status int, result, body string) *Answer {
	return &Answer{Status: status, Result: result, Body: []byte(body)}
}

// Refused is an answer that gives the sender a reason.
func Refused(status int, result, reason, retryAfter string) *Answer {
	body, err := json.Marshal(struct {
		Reason string `json:"reason"`
	}{reason})
	if err != nil {
		panic(err) // a string always encodes
	}
	return &Answer{Status: status, Result: result, Reason: reason, Body: body, retryAfter: retryAfter}
}

// Silent is an answer without a body.
func Silent(status int, result, retryAfter string) *Answer {
	return &Answer{Status: status, Result: result, retryAfter: retryAfter}
}

// Caused marks a 503 as one that senders caused.
func (a *Answer) Caused() *Answer {
	a.routine = true
	return a
}

// Level is where an answer belongs in a log: what we failed to do is a warning, everything else is what senders did. Too many at once is
// their doing, and an issuer that does not answer is their choice: neither may hide what was not stored of others.
func (a *Answer) Level() slog.Level {
	if a.Status == http.StatusServiceUnavailable && !a.routine {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// Failing is the same answer to a webhook for which the filters of n resources failed.
func (a *Answer) Failing(n int) *Answer {
	if n == 0 {
		return a
	}
	told := *a
	told.Body = fmt.Appendf(slices.Clone(a.Body[:len(a.Body)-1]), `,"filtersFailed":%d}`, n)
	return &told
}

// Write sends the answer. Headers that the handler set before are sent with it.
func (a *Answer) Write(w http.ResponseWriter) {
	h := w.Header()
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if len(a.Body) > 0 {
		h["Content-Type"] = jsonType
	}
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body) // if the sender has gone the outcome stands without it
	}
}

// drainTime is how long a refused request may take to send the rest of a body that nobody reads.
const drainTime = time.Second

// Abandon bounds the time in which the server drains the body of a request that was refused before it was read: else a slow
// body would hold its connection for the whole read time-out. It must be called before the answer is written, because
// net/http drains first.
func Abandon(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// A writer that knows no deadlines belongs to no connection that could be held.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	}
}

// IdentityEncoded reports whether the body is sent as it is. Encoded bodies are refused: what they inflate to is unknown.
func IdentityEncoded(h http.Header) bool {
	for _, v := range h["Content-Encoding"] {
		if v != "" && v != "identity" {
			return false
		}
	}
	return true
}

package receiver

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// answer is what a request is told, and how it is counted.
type answer struct {
	status int
	// result is the label under which the request is counted, from a closed set.
	result string
	// reason is the stable text for the sender's operator, empty where nothing may be told.
	reason string
	body   []byte
	// retryAfter is the Retry-After header, empty for none.
	retryAfter string
	// folded says of an accepted webhook that it was over its Receiver's budget, duplicate that it was accepted before, ping that it only
	// tried the connection.
	folded, duplicate, ping bool
	// routine says of a 503 that senders caused it.
	routine bool
}

// jsonType is shared by all answers; net/http does not change it.
var jsonType = []string{"application/json"}

// said is an answer without an error: body is JSON.
func said(status int, result, body string) *answer {
	return &answer{status: status, result: result, body: []byte(body)}
}

// refused is an answer that gives the sender a reason.
func refused(status int, result, reason, retryAfter string) *answer {
	body, err := json.Marshal(struct {
		Reason string `json:"reason"`
	}{reason})
	if err != nil {
		panic(err) // a string always encodes
	}
	return &answer{status: status, result: result, reason: reason, body: body, retryAfter: retryAfter}
}

// silent is an answer without a body.
func silent(status int, result, retryAfter string) *answer {
	return &answer{status: status, result: result, retryAfter: retryAfter}
}

// caused marks a 503 as one that senders caused.
func (a *answer) caused() *answer {
	a.routine = true
	return a
}

// level is where an answer belongs in a log: what we failed to do is a warning, everything else is what senders did. Too many at once is
// their doing, and an issuer that does not answer is their choice: neither may hide what was not stored of others.
func (a *answer) level() slog.Level {
	if a.status == http.StatusServiceUnavailable && !a.routine {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// failing is the same answer to a webhook for which the filters of n resources failed.
func (a *answer) failing(n int) *answer {
	if n == 0 {
		return a
	}
	told := *a
	told.body = fmt.Appendf(slices.Clone(a.body[:len(a.body)-1]), `,"filtersFailed":%d}`, n)
	return &told
}

func (a *answer) write(w http.ResponseWriter) {
	h := w.Header()
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if len(a.body) > 0 {
		h["Content-Type"] = jsonType
	}
	w.WriteHeader(a.status)
	if len(a.body) > 0 {
		_, _ = w.Write(a.body) // if the sender has gone the outcome stands without it
	}
}

// drainTime is how long a refused request may take to send the rest of a body that nobody reads.
const drainTime = time.Second

// abandon bounds the time in which the server drains the body of a request that was refused before it was read: else a slow
// body would hold its connection for the whole read time-out. It must be called before the answer is written, because
// net/http drains first.
func abandon(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// A writer that knows no deadlines belongs to no connection that could be held.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	}
}

// identityEncoded reports whether the body is sent as it is. Encoded bodies are refused: what they inflate to is unknown.
func identityEncoded(h http.Header) bool {
	for _, v := range h["Content-Encoding"] {
		if v != "" && v != "identity" {
			return false
		}
	}
	return true
}

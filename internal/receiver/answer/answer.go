package answer

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Answer is the response to a request, with its label for counting.
type Answer struct {
	Status int
	// Result is the label under which the request is counted, from a closed set.
	Result string
	// Reason is the stable text for the sender's operator, empty where nothing may be disclosed.
	Reason string
	// Body is JSON, empty for none.
	Body []byte
	// retryAfter is the Retry-After header, empty for none.
	retryAfter string
	// Folded marks an accepted webhook over its Receiver's budget, Duplicate a webhook that was accepted before, Ping a mere test of the
	// connection.
	Folded, Duplicate, Ping bool
	// routine marks a 503 that senders caused.
	routine bool
}

// jsonType is shared by all answers; net/http does not change it.
var jsonType = []string{"application/json"}

// Refused returns an answer that gives the sender a reason.
func Refused(status int, result, reason, retryAfter string) *Answer {
	body, err := json.Marshal(struct {
		Reason string `json:"reason"`
	}{reason})
	if err != nil {
		panic(err) // a string always encodes
	}
	return &Answer{Status: status, Result: result, Reason: reason, Body: body, retryAfter: retryAfter}
}

// Silent returns an answer without a body.
func Silent(status int, result, retryAfter string) *Answer {
	return &Answer{Status: status, Result: result, retryAfter: retryAfter}
}

// Caused marks a 503 as caused by senders.
func (a *Answer) Caused() *Answer {
	a.routine = true
	return a
}

// Level returns the answer's level in a log: a warning for a failure of this process, Info for everything that senders cause. Too many
// requests at once, an issuer that does not answer, too many targets that wait, and a sender that hangs up count as caused by senders: none
// of them may hide that others' webhooks were not stored.
func (a *Answer) Level() slog.Level {
	if a.Status == http.StatusServiceUnavailable && !a.routine {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// Failing returns the same answer for a webhook for which the filters of n resources failed.
func (a *Answer) Failing(n int) *Answer {
	if n == 0 {
		return a
	}
	told := *a
	told.Body = fmt.Appendf(slices.Clone(a.Body[:len(a.Body)-1]), `,"filtersFailed":%d}`, n)
	return &told
}

// Write sends the answer, together with headers that the handler set before.
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
		_, _ = w.Write(a.Body) // without effect on the outcome if the sender has hung up
	}
}

// drainTime bounds the time in which a refused request may send the unread rest of its body.
const drainTime = time.Second

// Abandon bounds the time in which the server drains the body of a request that was refused before it was read. Else a slow body would
// occupy its connection for the whole read time-out. It must be called before the answer is written, because net/http drains first.
func Abandon(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// A writer without deadlines belongs to no connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	}
}

// identities are the values of Content-Encoding, in lower case, that encode nothing. Some senders name the character set of their text there.
var identities = []string{"", "identity", "utf-8", "utf8"}

// IdentityEncoded reports whether the body is sent without encoding. Encoded bodies are refused: their decoded size is unknown.
func IdentityEncoded(h http.Header) bool {
	return !slices.ContainsFunc(h["Content-Encoding"], func(v string) bool { return !slices.Contains(identities, strings.ToLower(v)) })
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"notifier/internal/event"
)

const (
	// drainBytes and drainTime bound the reading of an unused answer, so that its connection can be used again. Beyond either the
	// connection is closed.
	drainBytes = 4 << 10
	drainTime  = time.Second
	// MaxRefusal is the length, in bytes, of the longest answer of which a word is shown.
	MaxRefusal = 1 << 10
	// MaxRetryAfter is the longest wait that a destination can ask for.
	MaxRetryAfter = time.Hour
)

// transport makes one request, classifies its answer and returns only a short successful answer.
type transport struct {
	base    *base
	proxy   func(*http.Request) (*url.URL, error)
	network Network
	// resolves means that the proxy is the tenant's, whose owner decides which names it resolves.
	resolves bool
	// header is sent to host alone.
	host      string
	header    []headerField
	maxReply  int
	namespace string // the Provider's
	word      func(answer []byte) string
	wait      func(status int, header http.Header, answer []byte) (time.Duration, bool)
	temporary func(status int, answer []byte) bool
}

// headerField is a field of a header that is kept for thousands of Providers. A map of one is 400 bytes.
type headerField struct {
	name   string
	values []string
}

// send makes a request of context ctx, which it may change, and returns the answer if it is 2xx and the type reads answers. It calls cancel,
// which ends ctx, to end the reading of an answer. Its errors are *event.Error.
func (t *transport) send(ctx context.Context, req *http.Request, cancel context.CancelFunc) ([]byte, error) {
	if err := t.checkBehindProxy(req); err != nil {
		return nil, Classify(err)
	}
	req = fenced(req)
	if req.URL.Host == t.host {
		for _, f := range t.header {
			req.Header[f.name] = f.values
		}
	}
	req.Header.Set("Via", "1.1 notifier")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "notifier")
	}
	resp, err := t.base.roundTrip(req)
	if err != nil {
		return nil, Classify(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return nil, t.refusal(resp, cancel)
	}
	if t.maxReply == 0 {
		drain(resp.Body, cancel)
		return nil, nil
	}
	return t.reply(ctx, resp.Body, cancel)
}

// refusal classifies an answer that is not 2xx, by its status and the parts of it that the type reads.
func (t *transport) refusal(resp *http.Response, cancel context.CancelFunc) *event.Error {
	after, now := resp.Header.Get("Retry-After"), time.Now()
	e := statusError(resp.StatusCode, after, now)
	answer := t.short(resp.Body, cancel)
	if t.wait != nil {
		if wait, limited := t.wait(resp.StatusCode, resp.Header, answer); limited {
			if resp.StatusCode != http.StatusTooManyRequests {
				e.Reason += " (rate limit)"
			}
			e.Class, e.Label, e.Period = event.Retry, LabelLimited, min(max(wait, 0), MaxRetryAfter)
			e.RetryAfter = max(e.Period, ParseRetryAfter(after, now))
		}
	}
	if t.temporary != nil && e.Class != event.Retry && t.temporary(resp.StatusCode, answer) {
		e.Class, e.RetryAfter = event.Retry, ParseRetryAfter(after, now)
	}
	if t.word != nil && answer != nil {
		if word := t.word(answer); word != "" {
			e.Reason += ": " + word
		}
	}
	return e
}

// short returns the answer of a refusal, read within bounds. It is nil if the type reads no refusals or the answer is too long.
func (t *transport) short(body io.Reader, cancel context.CancelFunc) []byte {
	if t.word == nil && t.wait == nil && t.temporary == nil {
		drain(body, cancel)
		return nil
	}
	timer := time.AfterFunc(drainTime, cancel)
	answer, err := io.ReadAll(io.LimitReader(body, MaxRefusal+1))
	timer.Stop()
	drain(body, cancel)
	if err != nil || len(answer) > MaxRefusal {
		return nil
	}
	return answer
}

// StatusOf returns the HTTP status of a refusal, 0 for any other error.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*event.Error](err); ok {
		return e.Status
	}
	return 0
}

// checkBehindProxy checks the destination's host when a proxy will dial it in our place. Without a proxy, and for the proxy itself,
// the dialler checks. A tenant's own proxy may know names that are unknown here, and its owner decides which addresses it reaches. The
// environment's proxy is the administrator's: the addresses of a tenant's name here must be allowed, and a name unknown here is left
// to the proxy to resolve.
func (t *transport) checkBehindProxy(req *http.Request) error {
	if t.proxy == nil {
		return nil
	}
	proxy, err := t.proxy(req)
	if err != nil {
		return event.NewError(event.Retry, LabelProxy, "proxy address is not valid", err)
	}
	if proxy == nil {
		return nil
	}
	if t.resolves {
		return t.network.checkNamed(req.URL.Hostname())
	}
	return t.network.checkHost(req.Context(), req.URL.Hostname())
}

// connectResult classifies a proxy's answer to CONNECT.
func connectResult(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return event.NewError(event.Retry, LabelProxy, fmt.Sprintf("proxy answered HTTP %d", resp.StatusCode), nil)
}

// drain reads the rest of an unused answer, within bounds. Only cancelling the request ends a blocked read.
func drain(body io.Reader, cancel context.CancelFunc) {
	if body == http.NoBody {
		return
	}
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}

// statusError classifies an answer that is not 2xx.
func statusError(code int, retryAfter string, now time.Time) *event.Error {
	class, label := event.Permanent, LabelClient
	reason := fmt.Sprintf("HTTP %d", code)
	switch {
	case code == http.StatusTooManyRequests:
		class, label = event.Retry, LabelLimited
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		class = event.Retry
	case code == http.StatusProxyAuthRequired:
		// Over plain http the proxy's refusal replaces the destination's answer.
		class, label = event.Retry, LabelProxy
	case code >= 500:
		class, label = event.Retry, LabelServer
	case code < 400:
		label, reason = LabelRedirect, reason+" (redirects are not followed)"
	}
	e := event.NewError(class, label, reason, nil)
	e.Status = code
	if class == event.Retry {
		e.RetryAfter = ParseRetryAfter(retryAfter, now)
	}
	return e
}

// ParseRetryAfter parses the value of a Retry-After header, seconds or an HTTP date. An absent, malformed or past value is zero, and a
// longer wait than MaxRetryAfter is MaxRetryAfter.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), MaxRetryAfter)
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0
	}
	// For a value out of range, ParseInt returns the nearest value within it.
	return time.Duration(min(max(seconds, 0), int64(MaxRetryAfter/time.Second))) * time.Second
}

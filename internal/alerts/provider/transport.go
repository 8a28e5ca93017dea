package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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
	// MaxRefusal is the length, in bytes, of the longest answer of which a word is shown. Google's explanations have more than a kilobyte.
	MaxRefusal = 4 << 10
	// pageBytes is the length, in bytes, of the part of an unused answer in which a page's first tag is looked for.
	pageBytes = 512
	// MaxRetryAfter is the longest wait that a destination can ask for.
	MaxRetryAfter = time.Hour
)

// request makes a request of context ctx, which it may change, and returns the answer if it is 2xx and the type reads answers. It calls cancel,
// which ends ctx, to end the reading of an answer. Its errors are *event.Error.
func (c *Client) request(ctx context.Context, req *http.Request, cancel context.CancelFunc) ([]byte, error) {
	via, err := c.via(req)
	if err != nil {
		return nil, Classify(err)
	}
	if req.URL.Host == c.address.Host {
		for _, f := range c.header {
			req.Header[f.name] = f.values
		}
		if c.options.Authorize != nil {
			authorization, err := c.options.Authorize(ctx)
			if err != nil {
				return nil, Classify(err)
			}
			req.Header["Authorization"] = []string{authorization}
		}
	}
	req = fenced(req)
	req.Header.Set("Via", "1.1 notifier")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "notifier")
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return nil, unanswered(err, via)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body is the connection itself, which cancel does not close
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return nil, c.refusal(resp, cancel)
	}
	html := !c.options.TakesPages && isHTML(resp.Header)
	var answer []byte
	switch {
	case c.options.MaxReply > 0:
		if answer, err = c.reply(ctx, resp.Body, cancel); err != nil {
			return nil, err
		}
	case html:
		answer, _ = begin(resp.Body, pageBytes, cancel)
	default:
		drain(resp.Body, cancel)
	}
	if html && bytes.HasPrefix(bytes.TrimSpace(answer), []byte("<")) {
		return nil, event.NewError(event.Retry, LabelReply, "answer is a web page", nil)
	}
	return answer, nil
}

// isHTML reports whether an answer says that it is HTML. Some APIs say so of a word: a page also begins with a tag.
func isHTML(h http.Header) bool {
	const html = "text/html"
	t := h.Get("Content-Type")
	return len(t) >= len(html) && strings.EqualFold(t[:len(html)], html)
}

// unanswered classifies the failure of a request without an answer, by a proxy unless via is nil. net/http has no types for the errors after
// which a server says something that is no HTTP, in answer to the request or before it: only their texts differ. An HTTP proxy may pass on what
// the destination says.
func unanswered(err error, via *url.URL) *event.Error {
	e := Classify(err)
	text := err.Error()
	switch {
	case e.Label != LabelOther || !strings.Contains(text, "malformed HTTP ") && !strings.Contains(text, "readLoopPeekFailLocked"):
		return e
	case via != nil && strings.HasPrefix(via.Scheme, "http"):
		return event.NewError(event.Retry, LabelProxy, "proxy or destination does not speak HTTP", err)
	default:
		return event.NewError(event.Retry, LabelReply, "host does not speak HTTP", err)
	}
}

// refusal classifies an answer that is not 2xx, by its status and the parts of it that the type reads.
func (c *Client) refusal(resp *http.Response, cancel context.CancelFunc) *event.Error {
	after, now := resp.Header.Get("Retry-After"), time.Now()
	e := statusError(resp.StatusCode, after, now)
	unsecured := resp.StatusCode == http.StatusBadRequest && resp.Request.URL.Scheme == "http"
	answer := c.short(resp.Body, cancel, unsecured)
	if c.options.Wait != nil {
		if wait, limited := c.options.Wait(resp.StatusCode, resp.Header, answer); limited {
			if resp.StatusCode != http.StatusTooManyRequests {
				e.Reason += " (rate limit)"
			}
			e.Class, e.Label, e.Period = event.Retry, LabelLimited, min(max(wait, 0), MaxRetryAfter)
			e.RetryAfter = max(e.Period, ParseRetryAfter(after, now))
		}
	}
	if c.options.Temporary != nil && e.Class != event.Retry && c.options.Temporary(resp.StatusCode, answer) {
		e.Class, e.RetryAfter = event.Retry, ParseRetryAfter(after, now)
	}
	if c.options.Word != nil && answer != nil {
		if word := c.options.Word(answer); word != "" {
			e.Reason += ": " + word
		}
	}
	if unsecured && slices.ContainsFunc(secured, func(page string) bool { return bytes.Contains(answer, []byte(page)) }) {
		e.Reason += ": the port is one of HTTPS"
	}
	return e
}

// secured are parts of the answers to HTTP at a port of HTTPS, by Go's server, nginx and Apache.
var secured = []string{
	"Client sent an HTTP request to an HTTPS server.", "The plain HTTP request was sent to HTTPS port",
	"speaking plain HTTP to an SSL-enabled server port",
}

// short returns the answer of a refusal, read within bounds. It is nil if the type reads no refusals or the answer is too long. The answer to a
// bad request without TLS is read in any case, as far as it came: a port of HTTPS resets the connection behind its answer.
func (c *Client) short(body io.Reader, cancel context.CancelFunc, unsecured bool) []byte {
	if !unsecured && c.options.Word == nil && c.options.Wait == nil && c.options.Temporary == nil {
		drain(body, cancel)
		return nil
	}
	answer, err := begin(body, MaxRefusal+1, cancel)
	if len(answer) > MaxRefusal || err != nil && !unsecured {
		return nil
	}
	return answer
}

// begin returns an answer's first bytes, at most most of them, and drains the rest.
func begin(body io.Reader, most int64, cancel context.CancelFunc) ([]byte, error) {
	timer := time.AfterFunc(drainTime, cancel)
	answer, err := io.ReadAll(io.LimitReader(body, most))
	timer.Stop()
	drain(body, cancel)
	return answer, err
}

// StatusOf returns the HTTP status of a refusal, 0 for any other error.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*event.Error](err); ok {
		return e.Status
	}
	return 0
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
	case code/100 == 3:
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

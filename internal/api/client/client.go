// Package client calls the API of notifier.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/event/view"
)

const (
	// maxAnswer bounds an answer in bytes: a page of events with messages has some megabytes.
	maxAnswer = 64 << 20
	// maxValues bounds the values in an answer, each of which may take hundreds of bytes in memory: as many as a page of 500 events has
	// whose metadata has a thousand entries.
	maxValues = 1 << 19
)

// Error is an answer of the API to a request that was not served.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message names the reason and the remedy. It is empty if another server, such as a proxy, has answered.
	Message string
	// RetryAfter is the time after which to retry, zero if the API does not give one.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	answered := fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	switch {
	case e.Message != "":
		return e.Message
	case e.Status == http.StatusRequestHeaderFieldsTooLarge:
		return answered + ": your token is too long; use that of a service account"
	case e.Temporary():
		return answered + ", as a proxy does that does not reach the API: try again"
	}
	return answered + ", which is no answer of the API: check the address of the server"
}

// Temporary reports whether the API may serve the same request later: it is busy or restarts, or a proxy before it does not reach it.
func (e *Error) Temporary() bool {
	return slices.Contains(temporary, e.Status)
}

var temporary = []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout}

// Client calls the API at one address. It may be used by several goroutines.
type Client struct {
	base *url.URL
	http *http.Client
}

// New returns a Client of the API at base, such as https://notifier.example.com. The transport must add the caller's credentials.
// Because of them the Client follows no redirect.
func New(base string, transport http.RoundTripper) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it is not the address of an API, a URL without a user such as https://notifier.example.com") // it may have a password
	}
	return &Client{base: u, http: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Namespaces returns the namespaces in which the caller may list deliveries, as far as the API checks.
func (c *Client) Namespaces(ctx context.Context) (view.Namespaces, error) {
	return do[view.Namespaces](ctx, c, http.MethodGet, c.url("v1", "namespaces"), nil)
}

// Page returns one page of a list of a namespace. T is the list's type of item.
func Page[T any](ctx context.Context, c *Client, namespace string, list view.List, q view.Query) (view.Page[T], error) {
	u := c.url("v1", "namespaces", namespace, string(list))
	u.RawQuery = values(q).Encode()
	return do[view.Page[T]](ctx, c, http.MethodGet, u, nil)
}

// Delivery returns one delivery with everything that is kept of it.
func (c *Client) Delivery(ctx context.Context, namespace, id string) (view.DeliveryDetail, error) {
	return do[view.DeliveryDetail](ctx, c, http.MethodGet, c.url("v1", "namespaces", namespace, "deliveries", id), nil)
}

// Explain returns an event with the decisions of its namespace's Alerts.
func (c *Client) Explain(ctx context.Context, namespace, id string) (view.Explanation, error) {
	return do[view.Explanation](ctx, c, http.MethodGet, c.url("v1", "namespaces", namespace, "events", id, "explain"), nil)
}

// Replay requests that deliveries be sent again.
func (c *Client) Replay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error) {
	return do[view.ReplayResult](ctx, c, http.MethodPost, c.url("v1", "namespaces", namespace, "deliveries", "replay"), r)
}

// Test requests that one test message be sent through a Provider.
func (c *Client) Test(ctx context.Context, namespace string, r view.TestRequest) (view.TestResult, error) {
	return do[view.TestResult](ctx, c, http.MethodPost, c.url("v1", "namespaces", namespace, "providers", r.Provider, "test"), r)
}

// url returns the address of a path of the API. Each part is one segment, with any characters.
func (c *Client) url(parts ...string) *url.URL {
	u := *c.base
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	u.Path = strings.TrimSuffix(c.base.Path, "/") + "/" + strings.Join(parts, "/")
	u.RawPath = strings.TrimSuffix(c.base.EscapedPath(), "/") + "/" + strings.Join(escaped, "/")
	return &u
}

// do sends one request and decodes its answer.
func do[T any](ctx context.Context, c *Client, method string, u *url.URL, body any) (result T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := newRequest(ctx, method, u, body)
	if err != nil {
		return result, err
	}
	answer, err := c.send(r, cancel)
	if err != nil {
		return result, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(attended{answer.Body, cancel}, maxAnswer))
	if err != nil {
		return result, fmt.Errorf("read the answer, which the network cut: %w", err)
	}
	if countValues(text) > maxValues || json.Unmarshal(text, &result) != nil {
		return result, errors.New("the answer is not of this API: check the address of the server, and its version")
	}
	return result, nil
}

// countValues returns about how many values JSON has: as many as there are commas and beginnings of lists and objects outside of texts.
func countValues(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++
		case ',', '[', '{':
			if !quoted {
				n++
			}
		}
	}
	return n
}

// newRequest returns a request with a body in JSON, nil for none.
func newRequest(ctx context.Context, method string, u *url.URL, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// send sends a request, whose context end ends. The answer has a status of success, and its body must be closed.
func (c *Client) send(r *http.Request, end context.CancelFunc) (*http.Response, error) {
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("call the API: %w", err)
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, failure(answer, end)
}

// failure returns the error in an answer. It calls end if the answer falls silent.
func failure(answer *http.Response, end context.CancelFunc) error {
	var said struct {
		Error string `json:"error"`
	}
	e := &Error{Status: answer.StatusCode}
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16); err == nil { // RFC 9110, section 10.2.3
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	if json.NewDecoder(io.LimitReader(attended{answer.Body, end}, 64<<10)).Decode(&said) == nil {
		e.Message = said.Error
	}
	return e
}

// values returns the parameters of a query.
func values(q view.Query) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"state": string(q.State), "provider": q.Provider, "alert": q.Alert, "receiver": q.Receiver, "object": q.Object, "event": q.Event,
		"cursor": q.Cursor,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}

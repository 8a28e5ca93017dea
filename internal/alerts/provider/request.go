package provider

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"notifier/internal/event"
)

// Request is one HTTP request to a destination.
type Request struct {
	// Method is the HTTP method, POST if empty.
	Method string
	// URL is the URL to request, the Client's address if nil.
	URL *url.URL
	// Header is added to the Client's. With a Body, Content-Type is application/json by default.
	Header http.Header
	Body   []byte
	// JSON, unless it is nil, is encoded as the Body, without escapes for HTML.
	JSON any
}

// Do makes a request within a Call and returns the answer, as far as ClientOptions.MaxReply allows. The Call classifies its errors.
// StatusOf returns the status of an error that is a refusal.
func (c *Client) Do(ctx context.Context, r Request) ([]byte, error) {
	if r.JSON != nil {
		var err error
		if r.Body, err = encodeJSON(r.JSON); err != nil {
			return nil, err
		}
	}
	u := &c.address
	if r.URL != nil {
		u = r.URL
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, http.MethodPost), u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, event.NewError(event.Permanent, LabelPayload, "request could not be built", err)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if u.User != nil && req.Header.Get("Authorization") == "" {
		password, _ := u.User.Password()
		req.SetBasicAuth(u.User.Username(), password)
	}
	return c.request(ctx, req, cancel)
}

// Exchange is Do that decodes the answer as JSON into out, unless out is nil. The API is named in an error, such as "GitHub's API".
func (c *Client) Exchange(ctx context.Context, r Request, out any, api string) error {
	answer, err := c.Do(ctx, r)
	if err != nil {
		return err
	}
	return DecodeJSON(answer, out, api)
}

// Fetch makes one request as a whole send: it bounds it by the timeout and classifies the outcome.
func (c *Client) Fetch(ctx context.Context, r Request) (answer []byte, err error) {
	err = c.Call(ctx, func(ctx context.Context) error {
		answer, err = c.Do(ctx, r)
		return err
	})
	return answer, err
}

// Post is Fetch without the answer.
func (c *Client) Post(ctx context.Context, r Request) error {
	_, err := c.Fetch(ctx, r)
	return err
}

// Send sends a notification as its Message.
func (c *Client) Send(ctx context.Context, n Notification) error {
	r, err := c.options.Message(c, n)
	if err != nil {
		return err
	}
	answer, err := c.Fetch(ctx, r)
	if err != nil || c.options.Outcome == nil {
		return err
	}
	return c.options.Outcome(answer)
}

// URL returns a copy of the address with segments added to its path. Each is escaped so that it stays one segment. Query and user
// stay.
func (c *Client) URL(segments ...string) *url.URL {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		if escaped[i] = url.PathEscape(s); s == "." || s == ".." {
			escaped[i] = strings.ReplaceAll(s, ".", "%2E")
		}
	}
	return c.address.JoinPath(escaped...)
}

// Root returns the URL of a path on the address's host. It keeps only the scheme and the host of the address.
func (c *Client) Root(path string) *url.URL {
	return &url.URL{Scheme: c.address.Scheme, Host: c.address.Host, Path: path}
}

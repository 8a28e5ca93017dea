package provider

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"notifier/internal/event"
)

// requests returns a Client to a server that answers with h.
func requests(t *testing.T, o ClientOptions, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := NewClient(Config{
		Address: server.URL + "/base?key=s3cret", Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestASegmentOfAPathStaysOneSegment(t *testing.T) {
	c := requests(t, ClientOptions{}, func(http.ResponseWriter, *http.Request) {})
	for segment, want := range map[string]string{
		"!room:host": "/base/v3/%21room:host", "a/b": "/base/v3/a%2Fb", "..": "/base/v3/%2E%2E", ".": "/base/v3/%2E",
		"../../admin": "/base/v3/..%2F..%2Fadmin", "a?b#c": "/base/v3/a%3Fb%23c", "é": "/base/v3/%C3%A9",
	} {
		if got := c.URL("v3", segment); got.EscapedPath() != want || got.RawQuery != "key=s3cret" {
			t.Errorf("%q: got %s?%s, want %s", segment, got.EscapedPath(), got.RawQuery, want)
		}
	}
}

func TestAVendorsOwnLimitIsRetriedWhenItSays(t *testing.T) {
	wait := func(status int, header http.Header, answer []byte) (time.Duration, bool) {
		return time.Duration(len(header.Get("X-Wait"))) * time.Minute, status == http.StatusForbidden && string(answer) == "slow down"
	}
	for name, c := range map[string]struct {
		answer, wait, after string
		class               event.Class
		want, period        time.Duration
	}{
		"the vendor's way":        {"slow down", "xx", "", event.Retry, 2 * time.Minute, 2 * time.Minute},
		"and a longer header":     {"slow down", "xx", "300", event.Retry, 5 * time.Minute, 2 * time.Minute},
		"without a time":          {"slow down", "", "", event.Retry, 0, 0},
		"another refusal":         {"no", "xx", "", event.Permanent, 0, 0},
		"an answer that is long":  {string(make([]byte, 2*MaxRefusal)), "xx", "", event.Permanent, 0, 0},
		"a wait that is too long": {"slow down", strings.Repeat("x", 90), "", event.Retry, MaxRetryAfter, MaxRetryAfter},
	} {
		client := requests(t, ClientOptions{Wait: wait}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Wait", c.wait)
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(c.answer))
		})
		err := client.Post(t.Context(), Request{})
		e := event.AsError(err)
		if e.Class != c.class || e.RetryAfter != c.want || StatusOf(err) != http.StatusForbidden {
			t.Errorf("%s: got class %d after %v of status %d, want class %d after %v", name, e.Class, e.RetryAfter, StatusOf(err), c.class, c.want)
		}
		if e.Period != c.period { // a header that any server on the way may add is not in it
			t.Errorf("%s: the period is %v, want %v", name, e.Period, c.period)
		}
	}
}

func TestARefusalThatTheVendorCallsTemporaryIsRetried(t *testing.T) {
	temporary := func(status int, answer []byte) bool {
		return status == http.StatusConflict && (answer == nil || string(answer) == "locked")
	}
	for name, c := range map[string]struct {
		status int
		answer string
		class  event.Class
		after  time.Duration
	}{
		"the vendor's":           {http.StatusConflict, "locked", event.Retry, 7 * time.Second},
		"an answer that is long": {http.StatusConflict, string(make([]byte, 2*MaxRefusal)), event.Retry, 7 * time.Second},
		"another refusal":        {http.StatusConflict, "no", event.Permanent, 0},
		"another status":         {http.StatusLocked, "locked", event.Permanent, 0},
	} {
		client := requests(t, ClientOptions{Temporary: temporary}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.answer))
		})
		e := event.AsError(client.Post(t.Context(), Request{}))
		if e.Class != c.class || e.RetryAfter != c.after || e.Period != 0 || e.Label != LabelClient {
			t.Errorf("%s: got class %d after %v of period %v, label %s", name, e.Class, e.RetryAfter, e.Period, e.Label)
		}
	}
}

// Fails when the header is added to requests that a vendor's library makes to other hosts.
func TestCredentialsGoToTheAddressAlone(t *testing.T) {
	var got string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	t.Cleanup(other.Close)
	for _, o := range []ClientOptions{
		{Login: func(Config) (http.Header, error) { return http.Header{"Authorization": {"s3cret"}}, nil }},
		{Authorize: func(context.Context) (string, error) { return "s3cret", nil }},
	} {
		c := requests(t, o, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") })
		u := c.URL()
		if err := c.Post(t.Context(), Request{}); err != nil || got != "s3cret" {
			t.Errorf("the address got %q, %v", got, err)
		}
		u.Host = other.Listener.Addr().String()
		if _, err := c.Fetch(t.Context(), Request{URL: u}); err != nil || got != "" {
			t.Errorf("another host got %q, %v", got, err)
		}
	}
}

// Fails when the path, the query or the user of an address stays.
func TestTheRootOfAnAddress(t *testing.T) {
	c := requests(t, ClientOptions{}, func(http.ResponseWriter, *http.Request) {})
	if got := c.Root("/v2/enqueue"); got.RequestURI() != "/v2/enqueue" || got.User != nil || got.Host == "" {
		t.Errorf("got %s", got)
	}
}

func TestTheUserOfAnAddressSignsInUnlessAHeaderDoes(t *testing.T) {
	got := make(chan string, 1)
	c := requests(t, ClientOptions{}, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") })
	c.address.User = url.UserPassword("user", "pass")
	for want, header := range map[string]http.Header{"Basic dXNlcjpwYXNz": nil, "Bearer token": {"authorization": {"Bearer token"}}} {
		if err := c.Post(t.Context(), Request{Header: header, Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if sent := <-got; sent != want {
			t.Errorf("signed in with %q, want %q", sent, want)
		}
	}
}

package receivertest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Token is the token of the Receivers of tests.
const Token = "s3cret"

// Sign returns GitHub's signature of a body.
func Sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(mac, body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func asPush(r *http.Request, key, body string) *http.Request {
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "push")
	r.Header.Set("X-Hub-Signature-256", Sign(key, body))
	return r
}

// Push returns a request of GitHub's for a push to a path, signed with a key, for a handler.
func Push(path, key, body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
	return asPush(r, key, body)
}

// Do serves a request and returns the answer.
func Do(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// BodyOf returns the body of an answer.
func BodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Client returns an HTTP client of its own, whose connections end with the test.
func Client(t testing.TB, connections int) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: connections, MaxIdleConns: connections}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// Send sends a push over c and returns the status.
func Send(ctx context.Context, c *http.Client, url, key, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(asPush(r, key, body))
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

package replay

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// refusal answers every request 503, with a Retry-After if one is set, and records the times of the requests.
type refusal struct {
	retryAfter string
	at         []time.Time
}

func (r *refusal) RoundTrip(*http.Request) (*http.Response, error) {
	r.at = append(r.at, time.Now())
	h := http.Header{}
	if r.retryAfter != "" {
		h.Set("Retry-After", r.retryAfter)
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: h, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

// The retries, described in ADR 0018, of the client by which controllers POST their events, at its defaults. Fails when
// a later version of it retries differently; notifier's answers are tested in internal/receiver.
func TestARetryAfterShortensAControllersPatience(t *testing.T) {
	for retryAfter, want := range map[string]string{"": "[0s 1s 3s 7s 15s]", "1": "[0s 1s 2s 3s 4s]", "2": "[0s 2s 4s 6s 8s]"} {
		synctest.Test(t, func(t *testing.T) {
			endpoint := &refusal{retryAfter: retryAfter}
			client := retryablehttp.NewClient()
			client.HTTPClient.Transport, client.Logger = endpoint, nil
			began := time.Now()
			if resp, err := client.Post("http://notification-controller/", "application/json", []byte("{}")); err == nil {
				_ = resp.Body.Close()
				t.Error("the event was taken")
			}
			var after []time.Duration
			for _, at := range endpoint.at {
				after = append(after, at.Sub(began))
			}
			if got := fmt.Sprint(after); got != want {
				t.Errorf("Retry-After %q: tried after %s, want %s", retryAfter, got, want)
			}
		})
	}
}

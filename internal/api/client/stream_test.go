package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// signedOut is a proxy before the API: after the first stream it answers with its own page, as when a session is over.
type signedOut struct{ asked int }

func (s *signedOut) RoundTrip(*http.Request) (*http.Response, error) {
	kind, body := "text/event-stream", "id: 1\n\n"
	if s.asked++; s.asked > 1 {
		kind, body = "text/html; charset=utf-8", "<!doctype html>\n<title>Sign in</title>\n"
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// Fails when a page of another server is taken for a stream without news: the watch would last for ever and show nothing.
func TestAWatchThatIsAnsweredWithAPageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &signedOut{}
		c, err := New("http://api", server)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var told []error
		err = Follow(ctx, c, Watch{
			Namespace: "team-a", List: view.Deliveries, Interrupted: func(why error) { told = append(told, why) },
		}, func(view.Delivery) error { return nil })
		if ctx.Err() != nil || err == nil || !strings.Contains(err.Error(), "no answer of the API") {
			t.Errorf("after %d requests the watch has ended with %v, and its reader was told %q", server.asked, err, told)
		}
	})
}

// busy is an API that answers after the first stream that it is busy for half a minute.
type busy struct{ asked int }

func (b *busy) RoundTrip(*http.Request) (*http.Response, error) {
	if b.asked++; b.asked == 1 {
		return streaming(http.NoBody), nil
	}
	header := http.Header{"Retry-After": {"30"}, "Content-Type": {"application/json"}}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: header, Body: io.NopCloser(strings.NewReader(`{"error":"wait 30 seconds"}`)),
	}, nil
}

// Fails when a watch asks again before the time that the API names, and tells its reader each time that it was too early.
func TestAWatchAsksAgainWhenTheAPISays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &busy{}
		c, err := New("http://api", server)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		told := 0
		err = Follow(ctx, c, Watch{
			Namespace: "team-a", List: view.Deliveries, Interrupted: func(error) { told++ },
		}, func(view.Delivery) error { return nil })
		if ctx.Err() == nil || told != server.asked-1 || server.asked > 12 {
			t.Errorf("in five minutes %d requests, of which its reader was told %d times: %v", server.asked, told, err)
		}
	})
}

package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// Fails when a watch ends because the API restarts: nothing answers then, or a connection breaks. Also fails when a watch that never began is
// begun again and again.
func TestAWatchOutlivesARestartOfTheAPI(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch asked.Add(1) {
		case 1:
			fmt.Fprint(w, "event: item\nid: 1\ndata: {\"id\":\"one\"}\n\n")
		case 2:
			panic(http.ErrAbortHandler) // breaks the connection without an answer
		default:
			fmt.Fprint(w, "event: item\nid: 2\ndata: {\"id\":\"two\"}\n\n")
		}
	}))
	defer server.Close()
	// A connection for each request: otherwise the transport may send one again by itself.
	c, err := New(server.URL, &http.Transport{DisableKeepAlives: true})
	if err != nil {
		t.Fatal(err)
	}
	var seen, interrupted []string
	enough := errors.New("enough")
	err = Follow(t.Context(), c, Watch{
		Namespace: "team-a", List: view.Deliveries, Interrupted: func(why error) { interrupted = append(interrupted, why.Error()) },
	}, func(d view.Delivery) error {
		if seen = append(seen, d.ID); len(seen) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || fmt.Sprint(seen) != "[one two]" || len(interrupted) != 1 {
		t.Errorf("saw %v, was interrupted %q, error %v", seen, interrupted, err)
	}
	server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = Follow(ctx, c, Watch{Namespace: "team-a", List: view.Deliveries}, func(view.Delivery) error { return nil })
	if err == nil || ctx.Err() != nil {
		t.Errorf("a watch that cannot begin: %v", err)
	}
}

// streaming returns the answer of a stream.
func streaming(body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
}

// answers is a transport that answers once, with an empty stream, and fails from then on.
type answers struct{ asked int }

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.asked++; a.asked > 1 {
		return nil, errors.New("connection refused")
	}
	return streaming(http.NoBody), nil
}

// Fails when a watch of an API that is gone for good never ends, or is begun again without a pause.
func TestAWatchOfAnAPIThatIsGoneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &answers{}
		c, err := New("http://api", api)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = Follow(t.Context(), c, Watch{Namespace: "team-a", List: view.Deliveries}, func(view.Delivery) error { return nil })
		if err == nil || time.Since(began) != maxOutage || api.asked != 1+int(maxOutage/watchPause) {
			t.Errorf("after %s and %d requests: %v", time.Since(began), api.asked, err)
		}
	})
}

// beats is a transport whose first stream has an item, a sign of life every 15 s for a while, and then nothing. Its second has another item.
type beats struct{ begun []time.Time }

func (b *beats) RoundTrip(r *http.Request) (*http.Response, error) {
	b.begun = append(b.begun, time.Now())
	body, stream := io.Pipe()
	go func(n int) {
		defer func() { _ = stream.CloseWithError(r.Context().Err()) }()
		fmt.Fprintf(stream, "event: item\nid: %d\ndata: {\"id\":\"%d\"}\n\n", n, n)
		beat := time.NewTicker(15 * time.Second)
		defer beat.Stop()
		for range 20 {
			select {
			case <-beat.C:
				fmt.Fprintf(stream, "id: %d\n\n", n)
			case <-r.Context().Done():
				return
			}
		}
		<-r.Context().Done()
	}(len(b.begun))
	return streaming(body), nil
}

// Fails when a watch whose connection is dead in silence is never begun again, or when one that is alive without news is.
func TestAWatchThatFallsSilentIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &beats{}
		c, err := New("http://api", api)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began, enough := time.Now(), errors.New("enough")
		err = Follow(ctx, c, Watch{Namespace: "team-a", List: view.Deliveries}, func(d view.Delivery) error {
			if d.ID == "2" {
				return enough
			}
			return nil
		})
		if after := 20*15*time.Second + maxSilence + watchPause; !errors.Is(err, enough) || time.Since(began) != after {
			t.Errorf("after %s, streams begun at %v, error %v", time.Since(began), api.begun, err)
		}
	})
}

// torn is a transport whose first stream breaks within an item, which the second has again, whole.
type torn struct{ asked int }

func (a *torn) RoundTrip(*http.Request) (*http.Response, error) {
	body := "id: 1\n\nevent: item\nid: 2\ndata: {\"id\":"
	if a.asked++; a.asked > 1 {
		body = "event: item\nid: 2\ndata: {\"id\":\"two\"}\n\n"
	}
	return streaming(io.NopCloser(strings.NewReader(body))), nil
}

// Fails when a connection that breaks within an item ends the watch.
func TestAWatchThatBreaksWithinAnItemGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("http://api", &torn{})
		if err != nil {
			t.Fatal(err)
		}
		enough := errors.New("enough")
		err = Follow(t.Context(), c, Watch{Namespace: "team-a", List: view.Deliveries}, func(d view.Delivery) error {
			if d.ID != "two" {
				t.Errorf("got %+v", d)
			}
			return enough
		})
		if !errors.Is(err, enough) {
			t.Errorf("error %v", err)
		}
	})
}

// lines is a transport whose stream is one item of very many lines of data. It counts the bytes that were read of it.
type lines struct{ read int }

func (l *lines) RoundTrip(*http.Request) (*http.Response, error) {
	if l.read > 0 {
		return nil, errors.New("it is not asked again")
	}
	return streaming(io.NopCloser(l)), nil
}

func (l *lines) Read(p []byte) (int, error) {
	if l.read > 16*maxItem {
		return 0, io.EOF
	}
	n := copy(p, "data: "+strings.Repeat("x", 1<<10)+"\n")
	l.read += n
	return n, nil
}

// Fails when an item of many lines has no bound: a server that never ends it would fill the memory.
func TestAnItemOfManyLinesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := &lines{}
		c, err := New("http://api", endless)
		if err != nil {
			t.Fatal(err)
		}
		err = Follow(t.Context(), c, Watch{Namespace: "team-a", List: view.Events}, func(view.Event) error { return nil })
		if !errors.Is(err, bufio.ErrTooLong) || endless.read > 2*maxItem {
			t.Errorf("of an item that never ends %d bytes are read, then: %v", endless.read, err)
		}
	})
}

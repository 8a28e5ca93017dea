package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// pipes is a listener of connections within the process, whose time-outs are those of a test's bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// serve serves the handler with the time-outs of the real listener, in the bubble of the test, and returns a client of it.
func (w *world) serve() *http.Client {
	w.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: w.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 25 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	w.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			w.Error(err)
		}
	})
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l.conns <- there
			return here, nil
		},
	}}
}

// watching is a watch as its client sees it.
type watching struct {
	*testing.T
	resp *http.Response
	// events are the events read, once a reader runs.
	events chan told
	// send passes an item to the watch.
	send func(any) error
}

// told is one event of a watch.
type told struct{ name, id, data string }

// watch opens a watch as a user and reads it. With a status other than 200 there is nothing to read.
func (w *world) watch(client *http.Client, user, query string, header http.Header) *watching {
	w.Helper()
	s := w.open(client, user, query, header)
	go s.read()
	return s
}

// open opens a watch and does not read it.
func (w *world) open(client *http.Client, user, query string, header http.Header) *watching {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://api/v1/namespaces/team-a/deliveries?watch=1"+query, http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("Authorization", "Bearer "+user)
	resp, err := client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = resp.Body.Close() })
	s := &watching{T: w.T, resp: resp, events: make(chan told, 100)}
	if resp.StatusCode == http.StatusOK {
		s.send = <-w.store.follower
	}
	return s
}

// read reads events to the end, without those that have only an ID.
func (s *watching) read() {
	defer close(s.events)
	var e told
	for lines := bufio.NewScanner(s.resp.Body); lines.Scan(); {
		switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				s.events <- e
			}
			e = told{}
		}
	}
}

// next returns the next event: its name, ID and data. All are empty at the end.
func (s *watching) next() (name, id, data string) {
	e := <-s.events
	return e.name, e.id, e.data
}

// W5. Fails when a watch outlives a right, or a token, by more than ten seconds, or when it ends without a reason.
func TestW5AWatchEndsWithTheRightToIt(t *testing.T) {
	for name, end := range map[string]func(*authority){
		"the right is revoked": func(a *authority) { a.revoke("jane", "team-a", "watch deliveries") },
		"the token is none":    func(a *authority) { a.mu.Lock(); defer a.mu.Unlock(); delete(a.tokens, "jane") },
		"nobody can be asked":  func(a *authority) { a.fail(ErrUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.authority.grant("jane", "team-a", reads...)
				s := w.watch(w.serve(), "jane", "", nil)
				if kind := s.resp.Header.Get("Content-Type"); kind != "text/event-stream" {
					t.Fatalf("%d %s", s.resp.StatusCode, kind)
				}
				<-time.After(61 * time.Second) // beyond every time-out of a request, and between two checks
				must(t, s.send(view.Delivery{ID: "aa", Time: time.Now()}))
				if got, id, data := s.next(); got != "item" || id == "" || !strings.Contains(data, `"id":"aa"`) {
					t.Fatalf("got %q %q %q", got, id, data)
				}
				end(w.authority)
				revoked := time.Now()
				if got, _, data := s.next(); got != "error" || !strings.Contains(data, `"error"`) {
					t.Errorf("got %q %q", got, data)
				}
				if took := time.Since(revoked); took > 3*time.Second { // package access relies on this bound
					t.Errorf("it took %s", took)
				}
				if got, _, _ := s.next(); got != "" {
					t.Errorf("after the end: %q", got)
				}
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Fails when a watch begins with the right to list but without the right to watch. Also fails when it sends earlier items without
// the right to list.
func TestAWatchNeedsItsOwnRight(t *testing.T) {
	w := newWorld(t)
	w.authority.grant("jane", "team-a", "list deliveries")
	w.want(http.StatusForbidden, "jane", "GET", "/v1/namespaces/team-a/deliveries?watch=1", nil)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", "watch deliveries")
		w.store.deliveries = []view.Delivery{{ID: "old"}}
		s := w.watch(w.serve(), "jane", "&since=1h", nil)
		if got, _, data := s.next(); s.resp.StatusCode != http.StatusForbidden || got != "" {
			t.Errorf("%d %s %s", s.resp.StatusCode, got, data)
		}
	})
}

// Fails when a returning client does not receive the missed items in order, or when a query's names and state do not select.
func TestAWatchGoesOnFromTheLastItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		client := w.serve()
		last := time.Date(2026, 7, 1, 8, 0, 0, 5, time.UTC)
		w.store.deliveries = []view.Delivery{{ID: "new", Time: last.Add(time.Second)}, {ID: "old", Time: last}} // as the store lists them
		s := w.watch(client, "jane", "&state=dead&provider=slack", http.Header{"Last-Event-Id": {last.Format(time.RFC3339Nano)}})
		for _, want := range []string{"old", "new"} {
			if _, id, data := s.next(); !strings.Contains(data, want) || id == "" {
				t.Errorf("got %s %s, want %s", id, data, want)
			}
		}
		if q := w.store.query; !q.Since.Equal(last.Add(-late[view.Deliveries])) || q.State != view.StateDead || q.Provider != "slack" || q.Limit != view.MaxLimit {
			t.Errorf("asked for %+v", q)
		}
		for _, d := range []view.Delivery{
			{ID: "sent", State: view.StateSent, Provider: "slack"},
			{ID: "teams", State: view.StateDead, Provider: "teams"},
			{ID: "it", State: view.StateDead, Provider: "slack"},
		} {
			must(t, s.send(d))
		}
		if _, _, data := s.next(); !strings.Contains(data, `"id":"it"`) {
			t.Errorf("got %s", data)
		}
		w.store.next = "more"
		if s := w.watch(client, "jane", "&since=1h", nil); s.resp.StatusCode != http.StatusGone {
			t.Errorf("of too many: %d", s.resp.StatusCode)
		}
		if bad := w.watch(client, "jane", "", http.Header{"Last-Event-Id": {"7"}}); bad.resp.StatusCode != http.StatusBadRequest {
			t.Errorf("an ID that is none: %d", bad.resp.StatusCode)
		}
	})
}

// Fails when the earlier items are listed before new ones are kept: an item between the two would be missed. Also fails when an
// item in both is sent twice.
func TestAWatchMissesNothingBetweenWhatCameAndWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.store.begins, w.store.entered = make(chan struct{}), make(chan string, 1)
		both := view.Delivery{ID: "both", Time: time.Now()}
		w.store.deliveries = []view.Delivery{both}
		client, opened := w.serve(), make(chan *watching, 1)
		go func() { opened <- w.watch(client, "jane", "&since=1h", nil) }()
		synctest.Wait()
		if len(w.store.entered) > 0 {
			t.Error("it is listed what came before it is kept what is new")
		}
		close(w.store.begins)
		s := <-opened
		for _, d := range []view.Delivery{both, {ID: "new", Time: time.Now()}} {
			must(t, s.send(d))
		}
		for _, want := range []string{"both", "new"} {
			if _, _, data := s.next(); !strings.Contains(data, want) {
				t.Errorf("got %s, want %s", data, want)
			}
		}
	})
}

// Fails when a client that received no item cannot continue from its place: the items in between would be missed.
func TestAWatchWithoutNewsSaysWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		s, begun := w.open(w.serve(), "jane", "", nil), time.Now()
		lines := bufio.NewScanner(s.resp.Body)
		for _, at := range []time.Duration{0, heartbeat} {
			for more := true; more; more = more && lines.Text() == "" {
				more = lines.Scan()
			}
			want := begun.Add(at.Truncate(reportEvery)) // what the store has reached by then
			if text := lines.Text(); text != "id: "+idOfTime(want) || time.Since(begun) != at {
				t.Errorf("at %s: %q", time.Since(begun), text)
			}
		}
	})
}

// Fails when a client that does not read the missed items keeps its watch after its right, or when the unsent items have no bound
// in bytes.
func TestAClientThatDoesNotReadWhatItMissedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		for range view.MaxLimit {
			w.store.deliveries = append(w.store.deliveries, view.Delivery{Failure: strings.Repeat("x", 10_000)})
		}
		client := w.serve()
		first := w.open(client, "jane", "&since=1h", nil)
		if second := w.open(client, "jane", "&since=1h", nil); first.resp.StatusCode != http.StatusOK || second.resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("answered %d, %d", first.resp.StatusCode, second.resp.StatusCode)
		}
		w.authority.revoke("jane", "team-a", "watch deliveries")
		<-time.After(recheckEvery)
		synctest.Wait()
		first.read()
		if n := len(first.events); n > 2 {
			t.Errorf("%d items after the right has ended", n)
		}
	})
	kept := &watch{news: make(chan view.Item, 1)}
	must(t, kept.keep(view.Event{Message: strings.Repeat("x", 1<<20), Metadata: map[string]string{"a": strings.Repeat("x", 1<<20)}}))
	if e := (<-kept.news).(view.Event); len(e.Message) > shortMessage || len(e.Metadata) > 0 {
		t.Errorf("an event that waits has %d bytes of message", len(e.Message))
	}
}

// Fails when a client that does not read delays Follow, or gets no error that it missed items.
func TestASlowClientEndsItsOwnWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		s := w.open(w.serve(), "jane", "", nil)
		begin := time.Now()
		var err error
		for i := 0; err == nil && i < 10*maxBehind; i++ {
			err = s.send(view.Delivery{ID: fmt.Sprint(i), Failure: strings.Repeat("x", 10_000)})
		}
		if !errors.Is(err, errBehind) || time.Since(begin) > 0 {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
		<-time.After(2 * sendTimeout)
		synctest.Wait()
		if n := w.handler.service.limits.watches.Len(); n != 0 {
			t.Errorf("%d users have watches", n)
		}
	})
}

// Fails when an open watch delays the end of the process, when a watch does not end after half an hour, or when it ends without a
// reason.
func TestWatchesEndWithTheProcessAndWithTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		client := w.serve()
		begin := time.Now()
		s := w.watch(client, "jane", "", nil)
		if got, _, data := s.next(); got != "" || time.Since(begin) != watchTime {
			t.Errorf("after %s: %s %s", time.Since(begin), got, data)
		}
		s = w.watch(client, "jane", "", nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, w.handler.Run(ctx))
		begin = time.Now()
		if got, _, _ := s.next(); got != "error" || time.Since(begin) > 0 {
			t.Errorf("at the end of the process: %s after %s", got, time.Since(begin))
		}
	})
}

// Fails when the watches of one user have no bound, or take those of another.
func TestT6WatchesOfAUserAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.authority.grant("joe", "team-a", reads...)
		w.store.follower = make(chan func(any) error, 100)
		client := w.serve()
		for range userWatches {
			w.watch(client, "jane", "", nil)
		}
		if s := w.watch(client, "jane", "", nil); s.resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("one more: %d", s.resp.StatusCode)
		}
		if s := w.watch(client, "joe", "", nil); s.resp.StatusCode != http.StatusOK {
			t.Errorf("another user: %d", s.resp.StatusCode)
		}
	})
}

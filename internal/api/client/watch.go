package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"notifier/internal/event/view"
)

const (
	// maxItem bounds one item of a stream in bytes.
	maxItem = 4 << 20
	// watchPause is the least pause before a stream that ended is begun again.
	watchPause = time.Second
	// maxSilence bounds the time in which an answer brings nothing: in a stream the API sends a sign of life every 15 seconds.
	maxSilence = 45 * time.Second
	// maxOutage bounds the time in which no connection to the API succeeds: longer than a restart takes.
	maxOutage = time.Minute
	// maxSeen bounds the last items that are recognized when the API sends them again.
	maxSeen = 1024
)

// Watch selects the items to follow: those of one list of a namespace that a query selects.
type Watch struct {
	Namespace string
	List      view.List
	Query     view.Query
	// Opened, unless nil, is called when a stream begins. All items stored from then on will follow.
	Opened func()
	// Interrupted, unless nil, receives the reason why a stream is begun again, unless it is only that its time was over.
	Interrupted func(why error)
}

// errMissed says that items are left out.
var errMissed = errors.New("more came meanwhile than a watch sends, and some of it is left out: list it")

// Follow calls handle with each new item of w. T is the list's type of item. When the API ends the stream, as it does after some
// time, Follow begins it again where it ended. Follow returns when ctx ends, when the API refuses or cannot be reached for maxOutage, or with
// the unchanged error of handle.
func Follow[T any](ctx context.Context, c *Client, w Watch, handle func(T) error) error {
	seen, err := lru.New[uint64, struct{}](maxSeen)
	if err != nil {
		return err
	}
	s := &stream{seed: maphash.MakeSeed(), seen: seen}
	for {
		err := c.read(ctx, w, s, func(data []byte) error {
			if s.again(data) {
				return nil
			}
			var item T
			if err := json.Unmarshal(data, &item); err != nil {
				return errors.New("the stream has an item that is not of this API")
			}
			return handle(item)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !s.goesOn(err) {
			return err
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusGone {
			s.last, err = "", errMissed
		}
		if err != nil && w.Interrupted != nil {
			w.Interrupted(err)
		}
		select {
		case <-time.After(pauseAfter(err)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pauseAfter returns the pause before a stream is begun again that ended with an error, or with nil: as long as the API says, at most maxOutage.
func pauseAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return min(max(watchPause, e.RetryAfter), maxOutage)
	}
	return watchPause
}

// goesOn reports whether a stream that was begun once continues after an error. It does if the API is busy, restarts or refuses to
// send all the missed items, and after the error of a proxy before the API.
func (s *stream) goesOn(err error) bool {
	if s.answered.IsZero() {
		return false
	}
	if _, lost := errors.AsType[*url.Error](err); lost {
		return time.Since(s.answered) < maxOutage
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	s.answered = time.Now()
	return e.Temporary() || e.Status == http.StatusGone && s.last != ""
}

// read reads one stream to its end.
func (c *Client) read(ctx context.Context, w Watch, s *stream, item func(data []byte) error) error {
	u := c.url("v1", "namespaces", w.Namespace, string(w.List))
	v := values(w.Query)
	v.Set("watch", "1")
	u.RawQuery = v.Encode()
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := newRequest(bounded, http.MethodGet, u, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	if s.last != "" {
		r.Header.Set("Last-Event-ID", s.last)
	}
	answer, err := c.send(r, cancel)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return &Error{Status: answer.StatusCode} // the page of a proxy, which would pass for a stream without news
	}
	if s.answered = time.Now(); w.Opened != nil {
		w.Opened()
	}
	defer func() { s.answered = time.Now() }()
	s.name, s.data, s.id = "", nil, s.last // the stream before may have ended within an event
	lines := bufio.NewScanner(attended{answer.Body, cancel})
	lines.Buffer(make([]byte, 0, 64<<10), maxItem)
	for lines.Scan() {
		name, data := s.line(lines.Bytes())
		if len(s.data) > maxItem {
			return fmt.Errorf("read the stream: %w", bufio.ErrTooLong)
		}
		if name != "item" || data == nil {
			continue // a sign of life, or the reason of the end: the next stream shows whether the reason lasts
		}
		if err := item(data); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("read the stream: %w", err)
	}
	return nil
}

// attended is the body of an answer. It ends the request when a read waits for longer than maxSilence, as for a connection that broke in
// silence.
type attended struct {
	body io.Reader
	end  context.CancelFunc
}

func (a attended) Read(p []byte) (int, error) {
	defer time.AfterFunc(maxSilence, a.end).Stop()
	return a.body.Read(p)
}

// stream parses server-sent events (the section of that name in the HTML standard) line by line.
type stream struct {
	name string
	data []byte
	// id is the ID of the current event, last that of the last complete one.
	id, last string
	// answered is when the API last answered, zero until a stream has begun.
	answered time.Time
	// seen has a hash of each of the last items, so that an item that the API sends again is shown once.
	seen *lru.Cache[uint64, struct{}]
	seed maphash.Seed
}

// again reports whether an item is one of the last ones, and remembers it.
func (s *stream) again(data []byte) bool {
	is, _ := s.seen.ContainsOrAdd(maphash.Bytes(s.seed, data), struct{}{})
	return is
}

// line parses a line and returns the event that it completes, nil data for none.
func (s *stream) line(line []byte) (name string, data []byte) {
	if len(line) == 0 {
		name, data = s.name, s.data
		s.name, s.data, s.last = "", nil, s.id
		return name, data
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		s.name = string(value)
	case "id":
		s.id = string(value)
	case "data":
		if s.data != nil {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
	}
	return "", nil
}

package env

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Received is one complete request to a Sink.
type Received struct {
	Time   time.Time
	Method string
	// Path is the URL's path, Query its raw query.
	Path, Query string
	Header      http.Header
	Body        []byte
	// Status is the sink's answer; 0 when it hangs or drops the connection, so that the sender cannot know whether the
	// request arrived.
	Status int
}

// Answer is a Sink's reaction to a request. The zero value answers 200 at once.
type Answer struct {
	// Status to answer; 0: 200.
	Status int
	Header http.Header
	Body   string
	// RetryAfter sets that header when positive.
	RetryAfter time.Duration
	// Delay is the time before the answer.
	Delay time.Duration
	// Hang answers nothing until the sender gives up or the sink goes down.
	Hang bool
	// Drop closes the connection without an answer, after the request was recorded.
	Drop bool
}

// Sink is an HTTP server on loopback that records its requests, in the order in which the bodies were complete.
type Sink struct {
	addr string
	// tls is nil for plain HTTP.
	tls *tls.Config

	mu       sync.Mutex
	server   *http.Server
	down     chan struct{} // closed when the server goes down
	answer   func(Received) Answer
	received []Received
	changed  chan struct{} // closed and replaced at every request
}

// NewSink starts a sink on a free port; it answers 200 until Answer or AnswerWith changes that.
func NewSink() (*Sink, error) {
	s, err := newSink()
	if err != nil {
		return nil, err
	}
	return s, s.Up(context.Background())
}

func newSink() (*Sink, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	return &Sink{
		addr:    fmt.Sprintf("127.0.0.1:%d", ports[0]),
		answer:  func(Received) Answer { return Answer{} },
		changed: make(chan struct{}),
	}, nil
}

// URL returns the sink's address with the path appended.
func (s *Sink) URL(path string) string { return "http://" + s.addr + path }

// Addr returns the sink's host and port; it stays the same when the sink goes down and up.
func (s *Sink) Addr() string { return s.addr }

// Up makes the sink listen, on the same port as before. It tries until ctx ends.
func (s *Sink) Up(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	var listener net.Listener
	err := Eventually(ctx, func(ctx context.Context) (err error) {
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.addr)
		return err
	})
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	if s.tls != nil {
		listener = tls.NewListener(listener, s.tls)
	}
	down := make(chan struct{})
	s.down = down
	s.server = &http.Server{
		ReadHeaderTimeout: 30 * time.Second,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, down) }),
	}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.server)
	return nil
}

// answering is how long a sink that goes down still answers.
const answering = time.Second

// Down closes the listener and every connection. A request in the records gets its answer before, unless the answer hangs
// or is delayed: those are cut. The records stay.
func (s *Sink) Down() error {
	s.mu.Lock()
	server := s.server
	if server == nil {
		s.mu.Unlock()
		return nil
	}
	s.server = nil
	close(s.down)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), answering)
	defer cancel()
	// A sender that saw no answer sends again, and its request counts twice.
	if server.Shutdown(ctx) == nil {
		return nil
	}
	return server.Close()
}

// Answer sets the sink's answer from now on.
func (s *Sink) Answer(a Answer) { s.AnswerWith(func(Received) Answer { return a }) }

// AnswerWith sets a function that decides for each request; it must be safe for concurrent use.
func (s *Sink) AnswerWith(f func(Received) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Received returns every request so far. The caller must not change the data that they refer to.
func (s *Sink) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.received)
}

// Count returns the number of requests so far.
func (s *Sink) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.received)
}

// Forget drops the records, and the settings of Answer.
func (s *Sink) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = nil
	s.answer = func(Received) Answer { return Answer{} }
}

// Wait calls enough with all requests so far, again after each change, until it returns true. Under load it is called
// for batches of requests, not for each.
func (s *Sink) Wait(ctx context.Context, enough func([]Received) bool) ([]Received, error) {
	for {
		s.mu.Lock()
		got, changed := slices.Clip(s.received), s.changed
		s.mu.Unlock()
		if enough(got) {
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, fmt.Errorf("sink received %d requests, not enough: %w", len(got), context.Cause(ctx))
		}
	}
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request, down <-chan struct{}) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender went away; it did not deliver
	}
	got := Received{
		Time: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Header: r.Header, Body: body,
	}
	a := s.record(&got)

	if a.Delay > 0 {
		timer := time.NewTimer(a.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-down:
			panic(http.ErrAbortHandler)
		}
	}
	switch {
	case a.Hang:
		select {
		case <-r.Context().Done():
		case <-down:
		}
		// To return would answer 200.
		panic(http.ErrAbortHandler)
	case a.Drop:
		drop(w)
	default:
		for name, values := range a.Header {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		if a.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(a.RetryAfter.Round(time.Second)/time.Second)))
		}
		w.WriteHeader(got.Status)
		_, _ = io.WriteString(w, a.Body)
	}
}

// record keeps the request and decides the answer.
func (s *Sink) record(got *Received) Answer {
	s.mu.Lock()
	decide := s.answer
	s.mu.Unlock()
	a := decide(*got)
	if !a.Hang && !a.Drop {
		got.Status = a.Status
		if got.Status == 0 {
			got.Status = http.StatusOK
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, *got)
	close(s.changed)
	s.changed = make(chan struct{})
	return a
}

// drop resets the connection.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(errors.Join(http.ErrAbortHandler, err))
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

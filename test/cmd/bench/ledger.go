package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ledger is the destination of deliveries. It parses requests itself to be cheap, since it shares processors with the
// measured process. It records the deliveries, and whether an object's events arrived in order.
//
// It reads the object and the number of an event from the last two words of its message, see [messageOf].
type ledger struct {
	url   string
	count atomic.Int64 // distinct deliveries since the start of the program
	last  atomic.Int64 // when the latest of them arrived, Unix nanoseconds
	down  atomic.Bool  // it refuses with 503, and does not count the refused deliveries

	mu         sync.Mutex
	ids        map[string]struct{}
	numbers    map[place]int
	receipts   []receipt
	duplicates int
	disordered int
}

// place is an object at a path; a path belongs to a Provider.
type place struct {
	path   string
	object int
}

// receipt is one delivery with its time of arrival.
type receipt struct {
	object, number int
	at             time.Time
}

func newLedger() (*ledger, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &ledger{url: "http://" + l.Addr().String()}
	s.begin()
	go func() { // ends with the process
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s, nil
}

// begin forgets earlier deliveries: they no longer count as receipts, nor for duplicates.
func (s *ledger) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids, s.numbers = map[string]struct{}{}, map[place]int{}
	s.receipts, s.duplicates, s.disordered = nil, 0, 0
}

// check returns the receipts since begin, and an error if an object's events arrived in another order or a delivery
// arrived twice. Duplicates are allowed around a crash (E3).
func (s *ledger) check(duplicatesAllowed bool) ([]receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disordered > 0 || s.duplicates > 0 && !duplicatesAllowed {
		return nil, fmt.Errorf("%d deliveries out of order and %d duplicates among %d", s.disordered, s.duplicates, len(s.receipts))
	}
	return s.receipts, nil
}

// wait returns when count has been reached, or an error when no delivery arrived for 40 s.
func (s *ledger) wait(ctx context.Context, count int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	progress, seen := time.Now(), s.count.Load()
	for s.count.Load() < count {
		if now := s.count.Load(); now != seen {
			progress, seen = time.Now(), now
		}
		if time.Since(progress) > 40*time.Second { // a refused destination is tried again within 30 s
			return fmt.Errorf("%d of %d deliveries arrived", seen, count)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// lastAt returns the arrival time of the latest delivery.
func (s *ledger) lastAt() time.Time { return time.Unix(0, s.last.Load()) }

const (
	answerOK   = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	answerDown = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
)

// serve answers the requests of one connection.
func (s *ledger) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 16<<10)
	var body []byte
	for {
		path, id, length, err := readHead(r)
		if err != nil {
			return
		}
		if cap(body) < length {
			body = make([]byte, length)
		}
		body = body[:length]
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		answer := answerOK
		if s.down.Load() {
			answer = answerDown
		} else {
			s.record(path, id, body)
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// readHead reads a request up to its body.
func readHead(r *bufio.Reader) (path, id string, length int, err error) {
	length = -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", "", 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch name, value, _ := bytes.Cut(line, []byte(": ")); {
		case first:
			if words := bytes.Fields(line); len(words) == 3 {
				path = string(words[1])
			}
		case len(line) == 0:
			if length < 0 {
				return "", "", 0, errors.New("a request without a Content-Length")
			}
			return path, id, length, nil
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", "", 0, err
			}
		case bytes.EqualFold(name, []byte("Idempotency-Key")):
			id = string(value)
		}
	}
}

func (s *ledger) record(path, id string, body []byte) {
	now := time.Now()
	object, number := numbersOf(body)
	at := place{path, object}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.ids[id]; again {
		s.duplicates++
		return
	}
	s.ids[id] = struct{}{}
	if before, ok := s.numbers[at]; ok && number < before {
		s.disordered++
	}
	s.numbers[at] = number
	s.receipts = append(s.receipts, receipt{object, number, now})
	s.last.Store(now.UnixNano())
	s.count.Add(1)
}

// messageOf returns the message of an event. number is the event's place among the object's events; round makes the
// message unlike those of earlier rounds.
func messageOf(round string, object, number int) string {
	return fmt.Sprintf("%s %d %d", round, object, number)
}

// numbersOf returns the numbers in a message of messageOf.
func numbersOf(body []byte) (object, number int) {
	_, message, _ := bytes.Cut(body, []byte(`"message":"`))
	message, _, _ = bytes.Cut(message, []byte(`"`))
	words := bytes.Fields(message)
	if len(words) < 2 {
		return 0, 0
	}
	object, _ = strconv.Atoi(string(words[len(words)-2])) // only events of messageOf are sent here
	number, _ = strconv.Atoi(string(words[len(words)-1]))
	return object, number
}

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/test/load"
)

// post sends a delivery to the ledger as a Provider of type generic does.
func post(t *testing.T, s *ledger, path, id, message string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(`{"severity":"info","message":"`+message+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Fails when the benchmark's sink counts a delivery twice, or does not detect that an object's events arrived in another
// order at one Provider.
func TestTheLedgerFindsDuplicatesAndDisorder(t *testing.T) {
	for name, c := range map[string]struct {
		posts      [][3]string // path, ID, message
		count      int
		wrong      bool
		duplicates bool
	}{
		"in order":            {posts: [][3]string{{"/a", "1", messageOf("w", 0, 0)}, {"/a", "2", messageOf("w", 0, 1)}}, count: 2},
		"another object":      {posts: [][3]string{{"/a", "1", messageOf("w", 0, 5)}, {"/a", "2", messageOf("w", 1, 0)}}, count: 2},
		"another Provider":    {posts: [][3]string{{"/a", "1", messageOf("w", 0, 5)}, {"/b", "2", messageOf("w", 0, 0)}}, count: 2},
		"two Alerts":          {posts: [][3]string{{"/a", "1", messageOf("w", 0, 5)}, {"/a", "2", messageOf("w", 0, 5)}}, count: 2},
		"out of order":        {posts: [][3]string{{"/a", "1", messageOf("w", 0, 5)}, {"/a", "2", messageOf("w", 0, 4)}}, count: 2, wrong: true},
		"a delivery twice":    {posts: [][3]string{{"/a", "1", messageOf("w", 0, 5)}, {"/a", "1", messageOf("w", 0, 5)}}, count: 1, wrong: true},
		"twice after a crash": {posts: [][3]string{{"/a", "1", messageOf("w", 0, 5)}, {"/a", "1", messageOf("w", 0, 5)}}, count: 1, duplicates: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newLedger()
			if err != nil {
				t.Fatal(err)
			}
			s.down.Store(true)
			if status := post(t, s, "/a", "0", messageOf("w", 0, 0)); status != http.StatusServiceUnavailable {
				t.Errorf("a sink that is down answered %d", status)
			}
			s.down.Store(false)
			for _, p := range c.posts {
				if status := post(t, s, p[0], p[1], p[2]); status != http.StatusOK {
					t.Errorf("answered %d", status)
				}
			}
			receipts, err := s.check(c.duplicates)
			if got := int(s.count.Load()); got != c.count || (err != nil) != c.wrong || err == nil && len(receipts) != c.count {
				t.Errorf("got %d deliveries, %d receipts, %v", got, len(receipts), err)
			}
		})
	}
}

// Fails when two connections send events of one object, or when the time of a delivery is measured from another event's
// POST.
func TestAnObjectBelongsToOneConnection(t *testing.T) {
	for _, connections := range []int{1, 3, 7, 10} {
		c := &contender{connections: connections, events: make([]template, 10)}
		begin := time.Now()
		sent := make(load.Sent, connections)
		var receipts []receipt
		owner := map[int]int{}
		for connection := range connections {
			for k := range 25 {
				at := begin.Add(time.Duration(connection*25+k) * time.Second)
				sent[connection] = append(sent[connection], at)
				object, number := c.numbers(connections, connection, k)
				if before, ok := owner[object]; ok && before != connection {
					t.Fatalf("%d connections: object %d is sent by %d and by %d", connections, object, before, connection)
				}
				owner[object] = connection
				receipts = append(receipts, receipt{object, number, at.Add(time.Millisecond)})
			}
		}
		if len(owner) != len(c.events) {
			t.Errorf("%d connections: events about %d objects, want %d", connections, len(owner), len(c.events))
		}
		for _, took := range c.latencies(sent, receipts) {
			if took != time.Millisecond {
				t.Fatalf("%d connections: a delivery took %s", connections, took)
			}
		}
	}
}

// Fails when a request is not complete or does not name its event.
func TestARequestIsWholeAndNamesItsEvent(t *testing.T) {
	c := &contender{url: "http://127.0.0.1:1", connections: 2, events: []template{{`{"message":"`, `"}`}, {`{"message":"`, `"}`}}}
	got := string(c.sequence("round").Request(nil, 1, 3))
	body := `{"message":"round 1 3"}`
	if !strings.HasSuffix(got, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)) {
		t.Errorf("got %q", got)
	}
	if object, number := numbersOf([]byte(body)); object != 1 || number != 3 {
		t.Errorf("read back object %d, number %d", object, number)
	}
}

package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"notifier/internal/receiver/receivertest"
)

// pipe is a connection from an address.
type pipe struct {
	net.Conn
	from   string
	closed *bool
}

func (p pipe) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(p.from), Port: 1}
}

func (p pipe) Close() error {
	*p.closed = true
	return nil
}

func newPipe(from string) pipe { return pipe{from: from, closed: new(bool)} }

// T6 for connections: at the cap the address with the most connections loses one. Fails when the cap makes every client wait or refuses
// every new one, and when a connection that serves a request is evicted before a waiting one.
func TestT6AtTheCapTheAddressWithTheMostConnectionsGivesOneUp(t *testing.T) {
	const flooder, victim = "192.0.2.1", "192.0.2.2"
	refused := 0
	cs := newConns(10, false, func() { refused++ })
	var flood []pipe
	var admitted []*conn
	for range 10 {
		p := newPipe(flooder)
		flood = append(flood, p)
		admitted = append(admitted, cs.admit(p))
	}
	for _, i := range []int{0, 1} { // the two oldest serve requests
		cs.state(admitted[i], http.StateActive)
	}
	if cs.admit(newPipe(victim)) == nil {
		t.Fatal("another address was refused")
	}
	if !*flood[2].closed || *flood[0].closed || *flood[1].closed {
		t.Error("not the oldest waiting connection was given up")
	}
	if refused != 1 || cs.open() != 10 {
		t.Errorf("%d refused, %d open; want 1 and 10", refused, cs.open())
	}
	for _, c := range admitted[3:] { // all serve requests now
		cs.state(c, http.StateActive)
	}
	if cs.admit(newPipe(flooder)) != nil {
		t.Error("the address with the most connections took one more from itself, though all are at work")
	}
	second := newPipe(victim)
	if cs.admit(second) == nil || !*flood[0].closed {
		t.Error("another address was refused because all of the flooder's connections are at work")
	}
	cs.state(admitted[5], http.StateIdle)
	if cs.admit(newPipe(victim)) == nil || !*flood[5].closed {
		t.Error("not the connection that became idle was given up")
	}
}

// T6: clients with one connection and an address each evict each other. Fails when among equals the newest connection is evicted, or one
// that serves a request. Also fails when an address with a few more connections counts as the heaviest while all of them serve requests.
func TestT6AConnectionAtWorkIsNotEvictedBeforeAWaitingConnection(t *testing.T) {
	for _, at := range []int{1, 3} { // the victim's connections, all of which serve requests
		cs := newConns(64, false, func() {})
		client := func(i int) pipe { return newPipe(fmt.Sprintf("2001:db8:0:%x::1", i)) }
		var first []pipe
		for i := range 64 - at {
			first = append(first, client(i))
			cs.admit(first[i])
		}
		var victims []pipe
		for range at {
			victims = append(victims, newPipe("192.0.2.1"))
			cs.state(cs.admit(victims[len(victims)-1]), http.StateActive)
		}
		for i := range 1000 {
			if cs.admit(client(1000+i)) == nil {
				t.Fatal("a client is refused while others' connections wait")
			}
			if i < len(first) && !*first[i].closed {
				t.Fatalf("client %d waited longest, and is not the one that was given up", i)
			}
		}
		for i, v := range victims {
			if *v.closed {
				t.Errorf("connection %d of %d at work was given up", i, at)
			}
		}
		if cs.open() != 64 {
			t.Errorf("%d open", cs.open())
		}
		if cs.admit(newPipe("192.0.2.1")) == nil {
			t.Error("who uses all that it has gets no more while others' wait")
		}
	}
}

// Fails when the counts drift: after any sequence of events all are back to zero.
func TestConnectionsAreCountedUntilTheyAreClosed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	cs := newConns(50, false, func() {})
	var open []*conn
	for range 20_000 {
		switch n := rnd.IntN(10); {
		case n < 5:
			if c := cs.admit(newPipe(fmt.Sprintf("10.0.0.%d", rnd.IntN(1+rnd.IntN(100))))); c != nil {
				open = append(open, c)
			}
		case len(open) == 0:
		case n < 7:
			cs.state(open[rnd.IntN(len(open))], http.StateActive)
		case n < 9:
			cs.state(open[rnd.IntN(len(open))], http.StateIdle)
		default:
			i := rnd.IntN(len(open))
			_ = open[i].Close()
			_ = open[i].Close() // net/http may close twice
			open = append(open[:i], open[i+1:]...)
		}
		if cs.open() > 50 || len(cs.peers) != len(cs.heavy) {
			t.Fatalf("%d open, %d addresses, %d in the heap", cs.open(), len(cs.peers), len(cs.heavy))
		}
		most := 0
		for _, p := range cs.peers {
			most = max(most, p.all.Len())
		}
		if len(cs.heavy) > 0 && cs.heavy[0].all.Len() != most {
			t.Fatalf("the heap's top has %d connections, another address %d", cs.heavy[0].all.Len(), most)
		}
	}
	for _, c := range open {
		_ = c.Close()
	}
	if cs.open() != 0 || len(cs.peers) != 0 || len(cs.heavy) != 0 {
		t.Errorf("after all were closed: %d open, %d addresses, %d in the heap", cs.open(), len(cs.peers), len(cs.heavy))
	}
}

// Over a real listener: idle connections up to the cap exclude no client, though they are of the same address.
func TestIdleConnectionsUpToTheCapKeepNobodyOut(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	w := newWebhooks(t, receivertest.Stored, hook)
	base, s := serveReal(t, w, func(o *Options) { o.Connections = 20 })
	for range 100 {
		dial(t, s, "POST ")
	}
	begin := time.Now()
	for range 5 {
		if status, err := send(t.Context(), client(t, 1), base+hook.Path, token, "{}"); err != nil || status != http.StatusOK {
			t.Errorf("got %d, %v", status, err)
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %s, as long as the slow headers are waited for", took)
	}
	if n := s.conns.open(); n > 20 {
		t.Errorf("%d connections, the cap is 20", n)
	}
}

// T6: with IPv6 the Pods of a node share a /64. Fails when, at a listener inside the cluster, connections of one of them use up those of
// another.
func TestT6PodsOfOneNodeHaveConnectionsOfTheirOwn(t *testing.T) {
	for _, whole := range []bool{true, false} {
		cs := newConns(2, whole, func() {})
		for range 2 {
			cs.state(cs.admit(newPipe("fd00:10:244:1::30")), http.StateActive)
		}
		if admitted := cs.admit(newPipe("fd00:10:244:1::2f")) != nil; admitted != whole {
			t.Errorf("whole addresses %t: admitted %t", whole, admitted)
		}
	}
}

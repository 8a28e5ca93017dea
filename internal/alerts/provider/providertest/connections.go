package providertest

import (
	"net"
	"net/http"
	"testing"
	"time"
)

const (
	rounds = 10 // of Senders for each protocol
	sends  = 5  // of a Sender
	// closing bounds the wait for connections to end. It is shorter than their idle timeout.
	closing = 45 * time.Second
)

// connections fails when every send builds a transport, or when Close relies on net/http to find the idle connection: over HTTP/2 it
// then stays open in some of the rounds. Connections are counted over all rounds. net/http gives up a connection of HTTP/1 if its
// writer is not done 50 ms after the answer, as happens on a loaded machine.
func (s Subject) connections(t *testing.T) {
	ca := NewCA(t)
	for name, start := range map[string]func() *Sink{
		"HTTP/1": func() *Sink { return newSink(s.Serve) },
		"HTTP/2": func() *Sink { return ca.newTLSSink(t, s.Serve, false, "127.0.0.1") },
	} {
		opened := 0
		for range rounds {
			opened += s.connectionsOf(t, start(), ca.PEM())
		}
		if opened >= 2*rounds {
			t.Errorf("over %s %d Senders used %d connections for %d sends each", name, rounds, opened, sends)
		}
	}
}

// connectionsOf returns the number of connections that a Sender opened for its sends until the Sender and all of them were closed.
func (s Subject) connectionsOf(t *testing.T, sink *Sink, ca []byte) int {
	states := make(chan http.ConnState, 4*sends*s.requests())
	sink.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew || state == http.StateClosed {
			states <- state
		}
	}
	if sink.TLS != nil {
		sink.StartTLS()
	} else {
		sink.Start()
	}
	defer sink.Close()
	cfg := s.config(sink.URL)
	cfg.TLS.CA = ca
	sender := s.build(t, cfg)
	for range sends {
		if err := sender.Send(t.Context(), Notifications(t)["info"]); err != nil {
			t.Fatal(err)
		}
	}
	if err := sender.Close(); err != nil {
		t.Fatal(err)
	}
	if via := sink.Last(t).Header.Get("Via"); via != "1.1 notifier" {
		t.Errorf("Via is %q: a notification to our own door could not be recognized", via)
	}
	opened, open, late := 0, 0, time.After(closing)
	for opened == 0 || open > 0 || len(states) > 0 { // the connections that answered a send are all among the states
		select {
		case state := <-states:
			if state == http.StateNew {
				opened++
				open++
			} else {
				open--
			}
		case <-late:
			t.Fatalf("%d of %d connections are open after Close", open, opened)
		}
	}
	return opened
}

package reconcile

import (
	"context"
	"sync"
	"time"

	"notifier/internal/alerts"
)

// ledger is a Ledger that tests write to.
type ledger struct {
	mu        sync.Mutex
	standings map[string]alerts.Standing
	changed   func(kind, namespace, name string)
	all       func()
}

func (l *ledger) Get(kind, namespace, name string) alerts.Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standings[kind+"/"+namespace+"/"+name]
}

func (l *ledger) Follow(ctx context.Context, changed func(kind, namespace, name string), all func()) {
	l.mu.Lock()
	l.changed, l.all = changed, all
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed, l.all = nil, nil
}

// set replaces an object's standing and does not report the change.
func (l *ledger) set(kind, namespace, name string, s alerts.Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standings[kind+"/"+namespace+"/"+name] = s
}

// tell replaces the standing of an object of team-a, and reports the change.
func (w *world) tell(kind, name string, s alerts.Standing) {
	w.ledger.set(kind, "team-a", name, s)
	w.ledger.changed(kind, "team-a", name)
	w.settle()
}

// faring returns a standing of the Provider "chat" with a health.
func faring(state alerts.State, message string, change ...func(*alerts.Standing)) alerts.Standing {
	s := alerts.Standing{UID: "uid-chat", Counted: true, Health: alerts.Health{State: state, Reason: "R", Message: message}}
	for _, c := range change {
		c(&s)
	}
	return s
}

// waiting sets the number of waiting deliveries.
func waiting(n int) func(*alerts.Standing) { return func(s *alerts.Standing) { s.Pending = n } }

// outcomeAt adds an outcome, and counts it.
func outcomeAt(at time.Time, result string) func(*alerts.Standing) {
	return func(s *alerts.Standing) {
		o := alerts.Outcome{Time: at, Kind: "Kustomization", Name: "app", Reason: "ReconciliationSucceeded", Result: result, Attempts: 1}
		if result == "sent" {
			s.Delivered++
			s.LastDelivery = o
		} else {
			o.Status, o.Class = 503, "http_5xx"
			s.LastFailure, s.Failure = o, "HTTP 503"
		}
		s.Recent = append(s.Recent, o)
		if len(s.Recent) > alerts.MaxRecent {
			s.Recent = s.Recent[1:]
		}
	}
}

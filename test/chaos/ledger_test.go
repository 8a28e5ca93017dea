package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// deliveryIDHeader carries the delivery ID at generic destinations.
const deliveryIDHeader = "Idempotency-Key"

// receipt is one message at the sink.
type receipt struct {
	id, message string
	at          time.Time
}

// receipts returns the messages at the sink, by path.
func receipts(t *testing.T, sink *env.Sink) map[string][]receipt {
	t.Helper()
	byPath := map[string][]receipt{}
	for _, r := range sink.Received() {
		var e struct{ Message string }
		must(t, json.Unmarshal(r.Body, &e))
		byPath[r.Path] = append(byPath[r.Path], receipt{r.Header.Get(deliveryIDHeader), e.Message, r.Time})
	}
	return byPath
}

// crash is the kill of one or more processes.
type crash struct {
	what string
	at   time.Time
	// over is the end of the time in which the crash explains a repeat. After the kill of a notifier another sends its
	// last deliveries again: the crash is over at once. While a NATS node is down no deliveries can be recorded: the
	// crash is over when everything works again.
	over time.Time
}

// killed is the kill of a notifier at this moment.
func killed() crash {
	now := time.Now()
	return crash{what: "worker", at: now, over: now}
}

// tally has the counts of the balance.
type tally struct {
	webhooksLost, delivered, lost int
	// twice counts the repeated messages, explained those of them around a crash. late is the time between the kill and
	// the first arrival of the latest of these.
	twice, explained int
	late             time.Duration
	disordered       int // objects whose messages arrived out of order
}

// balance waits until every accepted message has arrived, and then compares: no message lost, none out of order, every
// duplicate explained by one of the crashes.
func (l *load) balance(ctx context.Context, crashes []crash) (sum tally) {
	l.t.Helper()
	for _, target := range l.targets {
		if target.accepted == 0 {
			l.t.Errorf("no webhook of %s/%s was ever accepted", target.tenant.Namespace, target.name)
			continue
		}
		if _, err := target.tenant.WaitRequested(ctx, "GitRepository", target.name, target.lastSent); err != nil {
			l.t.Errorf("T4: lost: %v", err)
			sum.webhooksLost++
		}
	}
	l.waitForAll(ctx)
	got := receipts(l.t, l.sink)
	for _, o := range l.objects {
		l.compare(o, got[o.path], crashes, &sum)
	}
	l.t.Logf("accepted: %d webhooks, %d events; not accepted and tried again: %d; %d kills; lost: %d webhooks, %d events of %d; "+
		"twice: %d, of which around a kill and with the first ID: %d; objects out of order: %d", l.webhooks.Load(), l.events.Load(),
		l.refused.Load(), len(crashes), sum.webhooksLost, sum.lost, sum.lost+sum.delivered, sum.twice, sum.explained, sum.disordered)
	return sum
}

// waitForAll waits until the sink has every accepted event; compare reports the missing ones.
func (l *load) waitForAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	want := int(l.events.Load())
	if _, err := l.sink.Wait(ctx, func(all []env.Received) bool { return len(all) >= want }); err != nil {
		return
	}
	_ = env.Eventually(ctx, func(context.Context) error { // some of them may be duplicates
		got := receipts(l.t, l.sink)
		for _, o := range l.objects {
			seen := map[string]bool{}
			for _, r := range got[o.path] {
				seen[r.message] = true
			}
			for _, message := range o.accepted {
				if !seen[message] {
					return fmt.Errorf("%s is missing", message)
				}
			}
		}
		return nil
	})
}

// compare checks one object's events against the messages to its Provider, and adds to the sum.
func (l *load) compare(o *object, got []receipt, crashes []crash, sum *tally) {
	l.t.Helper()
	first := map[string]receipt{}
	var order []string
	for _, r := range got {
		if !strings.HasPrefix(r.message, o.prefix()) {
			continue
		}
		earlier, again := first[r.message]
		if !again {
			first[r.message] = r
			order = append(order, r.message)
			continue
		}
		sum.twice++
		if l.explained(earlier, r, crashes, sum) {
			sum.explained++
		}
	}
	for _, message := range o.accepted {
		if _, ok := first[message]; ok {
			sum.delivered++
		} else {
			sum.lost++
			l.t.Errorf("E2: lost: %q", message)
		}
	}
	// Events that were sent but whose answer the end of the load cut off may have arrived as well: they are the last.
	if want := o.accepted; len(order) >= len(want) && !slices.Equal(order[:len(want)], want) {
		sum.disordered++
		for i := range want {
			if order[i] != want[i] {
				l.t.Errorf("E4: %s: message %d is %q, want %q", o.path, i, order[i], want[i])
				break
			}
		}
	}
}

// explained reports whether a message may have been repeated: with its first ID and around a crash.
func (l *load) explained(earlier, again receipt, crashes []crash, sum *tally) bool {
	l.t.Helper()
	if earlier.id != again.id {
		l.t.Errorf("E3: %q came under two delivery IDs, %s and %s", again.message, earlier.id, again.id)
		return false
	}
	found, late := false, time.Duration(0)
	for _, c := range crashes { // the last is the nearest before the repeat
		if c.around(earlier.at, again.at) {
			found, late = true, earlier.at.Sub(c.at)
		}
	}
	if !found {
		last := crashes[len(crashes)-1].at
		l.t.Errorf("E3: %q came twice, with no kill between: %s and %s after the last", again.message, earlier.at.Sub(last), again.at.Sub(last))
		return false
	}
	sum.late = max(sum.late, late)
	return true
}

// around reports whether the crash lies between the two receipts. The first receipt's acknowledgement may have been in
// flight at the kill, so a crash that was over shortly before the first receipt was recorded counts too.
func (c crash) around(first, second time.Time) bool {
	return c.over.After(first.Add(-time.Second)) && c.at.Before(second)
}

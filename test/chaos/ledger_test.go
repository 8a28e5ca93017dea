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

// receipt is one message as the sink got it.
type receipt struct {
	id, message string
	at          time.Time
}

// receipts are what the sink has got, by path.
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
	// over is until when the crash explains that something is sent again. What a killed notifier had sent, another sends again: it is
	// over at once. While a NATS node is made up for nobody can record what was sent: it is over when everything works again.
	over time.Time
}

// killed is the kill of a notifier that has just come.
func killed() crash {
	now := time.Now()
	return crash{what: "worker", at: now, over: now}
}

// tally is what the balance comes to.
type tally struct {
	webhooksLost, delivered, lost int
	// twice counts the messages that came again, explained those of them that lie around a crash, and late is how long after the kill
	// the latest of these had come for the first time.
	twice, explained int
	late             time.Duration
	disordered       int // objects whose messages came out of order
}

// balance waits until everything that was accepted has come, and then compares: nothing lost, nothing out of order, every
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

// waitForAll waits until the sink holds every accepted event; what is missing then is reported by compare.
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

// compare checks one object's events against what its Provider got, and adds to the sum.
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
	// Events that were sent but whose answer the end of the load cut off may have come as well: they are the last.
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

// explained reports whether a message may have come again: with its first ID and around a crash.
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

// around reports whether the crash lies between the two receipts. The acknowledgement of the first may have been on its way
// when the kill came, so a crash that was over shortly before the first receipt was recorded explains as much.
func (c crash) around(first, second time.Time) bool {
	return c.over.After(first.Add(-time.Second)) && c.at.Before(second)
}

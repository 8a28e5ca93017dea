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

// balance waits until everything that was accepted has come, and then compares: nothing lost, nothing out of order, every
// duplicate explained by one of the kills.
func (l *load) balance(ctx context.Context, kills []time.Time) {
	l.t.Helper()
	for _, target := range l.targets {
		if target.accepted == 0 {
			l.t.Errorf("no webhook of %s/%s was ever accepted", target.tenant.Namespace, target.name)
			continue
		}
		if _, err := target.tenant.WaitRequested(ctx, "GitRepository", target.name, target.lastSent); err != nil {
			l.t.Errorf("T4: lost: %v", err)
		}
	}
	l.waitForAll(ctx)
	got := receipts(l.t, l.sink)
	lost, duplicates := 0, 0
	for _, o := range l.objects {
		missing, repeated := l.compare(o, got[o.path], kills)
		lost += missing
		duplicates += repeated
	}
	l.t.Logf("accepted: %d webhooks, %d events; not accepted and tried again: %d; %d kills; lost: %d; duplicates: %d, each across a kill and with its first ID",
		l.webhooks.Load(), l.events.Load(), l.refused.Load(), len(kills), lost, duplicates)
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

// compare checks one object's events against what its Provider got.
func (l *load) compare(o *object, got []receipt, kills []time.Time) (lost, duplicates int) {
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
		duplicates++
		if earlier.id != r.id {
			l.t.Errorf("E3: %q came under two delivery IDs, %s and %s", r.message, earlier.id, r.id)
		}
		if !slices.ContainsFunc(kills, func(k time.Time) bool { return around(k, earlier.at, r.at) }) {
			last := kills[len(kills)-1]
			l.t.Errorf("E3: %q came twice, with no kill between: %s and %s after the last", r.message, earlier.at.Sub(last), r.at.Sub(last))
		}
	}
	for _, message := range o.accepted {
		if _, ok := first[message]; !ok {
			lost++
			l.t.Errorf("E2: lost: %q", message)
		}
	}
	// Events that were sent but whose answer the end of the load cut off may have come as well: they are the last.
	if want := o.accepted; len(order) >= len(want) && !slices.Equal(order[:len(want)], want) {
		for i := range want {
			if order[i] != want[i] {
				l.t.Errorf("E4: %s: message %d is %q, want %q", o.path, i, order[i], want[i])
				break
			}
		}
	}
	return lost, duplicates
}

// around reports whether the kill lies between the two receipts. The acknowledgement of the first may have been on its way
// when the kill came, so a kill shortly before the first receipt was recorded explains as much.
func around(kill, first, second time.Time) bool {
	return kill.After(first.Add(-time.Second)) && kill.Before(second)
}

package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/fair"
)

// forgets are the streams with quotas, and how a message of a namespace is written to each.
var forgets = map[string]func(ctx context.Context, b *Bus, namespace, id string) error{
	streamDeadLetters: func(ctx context.Context, b *Bus, namespace, id string) error {
		d := testDelivery(id, namespace, "slack")
		d.Event.Message = strings.Repeat("x", 8<<10)
		return b.DeadLetter(ctx, &d, "client", "refused")
	},
	streamHistory: func(ctx context.Context, b *Bus, namespace, id string) error {
		d := testDelivery(id, namespace, "slack")
		d.Event.Reason = strings.Repeat("x", 8<<10)
		return b.Sent(ctx, &d)
	},
	streamWebhooks: func(ctx context.Context, b *Bus, namespace, id string) error {
		return b.RecordWebhooks(ctx, namespace, "receiver-"+id, []view.Webhook{{Reason: strings.Repeat("x", 8<<10)}})
	},
}

const quotaBudget = 2 * mib

// eachForgets runs a test for each stream with quotas, on a bus where it is small. write writes n messages of a namespace to it and then
// enforces the quotas, and kept counts the kept messages of a namespace.
func eachForgets(t *testing.T, test func(t *testing.T, write func(namespace string, n int), kept func(namespace string) int)) {
	t.Helper()
	for stream, write := range forgets {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			b := open(t, t.TempDir(), func(o *Options) {
				o.Budgets.DeadLetters, o.Budgets.History, o.Budgets.Webhooks = quotaBudget, quotaBudget, quotaBudget
			})
			ctx, written := testContext(t), 0
			prefix := map[string]string{streamDeadLetters: prefixDead, streamHistory: prefixHistory, streamWebhooks: prefixWebhook}[stream]
			test(t, func(namespace string, n int) {
				for range n {
					written++
					must(t, write(ctx, b, namespace, fmt.Sprint(written)))
				}
				must(t, b.stats.refresh(ctx))
				must(t, b.enforceQuotas(ctx))
			}, func(namespace string) int { return storedOf(t, b, stream, prefix+token(namespace)+".*") })
		})
	}
}

// storedOf counts the stored messages of the subjects that match a filter.
func storedOf(t *testing.T, b *Bus, stream, filter string) (n int) {
	t.Helper()
	for seq := uint64(1); ; {
		m, err := b.streams[stream].GetMsg(testContext(t), seq, jetstream.WithGetMsgSubject(filter))
		if err != nil {
			return n
		}
		n, seq = n+1, m.Sequence+1
	}
}

// TestT6AFloodPushesOutNothingOfAnotherNamespace is T6. Fails when what a namespace has in a stream is not bounded.
func TestT6AFloodPushesOutNothingOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	eachForgets(t, func(t *testing.T, write func(string, int), kept func(string) int) {
		write("modest.one", 20)
		for range 16 {
			write("flood", 32) // 4 MiB in all
		}
		write("modest.one", 1)
		if n := kept("modest.one"); n != 21 {
			t.Errorf("of 21 messages of another namespace %d are kept", n)
		}
		const quota = int(quotaBudget) / namespaceShare / (8 << 10)
		if n := kept("flood"); n < quota/2 || n > quota {
			t.Errorf("of the flood %d messages are kept, want up to the quota of %d", n, quota)
		}
	})
}

// TestANamespaceHasMoreThanItsQuotaUntilTheSpaceIsNeeded fails when the quotas are enforced in a stream that is less than half full, or only
// on the namespace that writes.
func TestANamespaceHasMoreThanItsQuotaUntilTheSpaceIsNeeded(t *testing.T) {
	t.Parallel()
	eachForgets(t, func(t *testing.T, write func(string, int), kept func(string) int) {
		write("large", 110)
		if n := kept("large"); n != 110 {
			t.Errorf("in a stream that is not half full, %d of 110 messages are kept", n)
		}
		for i := range 12 {
			write(fmt.Sprint("modest-", i), 16) // 1.5 MiB in all
		}
		for i := range 12 {
			if n := kept(fmt.Sprint("modest-", i)); n != 16 {
				t.Errorf("of 16 messages of a namespace within its quota %d are kept", n)
			}
		}
		if n := kept("large"); n == 0 || n > int(2*quotaBudget)/namespaceShare/(8<<10) {
			t.Errorf("%d messages are kept of the namespace that had more than its quota", n)
		}
	})
}

// letterWriter opens a bus where DEADLETTERS is small and a Provider has most letters in it. write writes n letters of a Provider, and then
// enforces the quotas.
func letterWriter(t *testing.T, most int) (b *Bus, write func(namespace, provider string, n, size int)) {
	t.Helper()
	b = open(t, t.TempDir(), func(o *Options) { o.Budgets.DeadLetters, o.DeadPerProvider = quotaBudget, most })
	ctx, written := testContext(t), 0
	return b, func(namespace, provider string, n, size int) {
		for range n {
			written++
			d := testDelivery(fmt.Sprint(written), namespace, provider)
			d.Event.Message = strings.Repeat("x", size)
			must(t, b.DeadLetter(ctx, &d, "client", "refused"))
		}
		must(t, b.stats.refresh(ctx))
		must(t, b.enforceQuotas(ctx))
	}
}

// TestWhatAStreamHasDiscardedIsNotInAQuota fails when what a Provider wrote and has no longer counts for its namespace's quota:
// the namespace would lose the dead letters of its other Providers, though it has little. Fails when one large letter has all others counted
// as large ones, or when the kept letters are taken for the largest instead of the newest.
func TestWhatAStreamHasDiscardedIsNotInAQuota(t *testing.T) {
	t.Parallel()
	for name, large := range map[string]int{"one large letter": 1, "many large letters": 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 32
			b, write := letterWriter(t, most)
			write("team", "quiet", 20, 2<<10)
			write("team", "broken", large, 20<<10) // at most two thirds of half the stream
			write("team", "broken", most, 2<<10)
			for i := range 6 { // most of the stream
				write(fmt.Sprint("other-", i), "slack", 4, int(quotaBudget)/namespaceShare/5)
			}
			write("team", "broken", 200, 2<<10) // twice the quota
			kept := func(provider string) int { return storedOf(t, b, streamDeadLetters, deadSubject("team", provider)) }
			if quiet, broken := kept("quiet"), kept("broken"); quiet != 20 || broken != most {
				t.Errorf("of 20 letters of a Provider %d are kept, beside %d of another", quiet, broken)
			}
		})
	}
}

// TestT6ReplayedLettersHideNoLargeOnes is T6. Fails when the newest letters of a Provider are taken for those that it still has, though they
// were sent again and older, larger ones were not: a namespace would have as much as it likes.
func TestT6ReplayedLettersHideNoLargeOnes(t *testing.T) {
	t.Parallel()
	b, write := letterWriter(t, 1000)
	write("flood", "slack", 40, 20<<10) // three times the quota
	ctx := testContext(t)
	state, _ := b.stats.state(streamDeadLetters)
	write("flood", "slack", 40, 1<<10)
	for from := state.LastSeq + 1; ; {
		letter, next, err := b.NextDead(ctx, "flood", "slack", time.Time{}, from)
		must(t, err)
		if next == 0 {
			break
		}
		letter.Delivery.Replays++
		must(t, b.Replay(ctx, *letter))
		from = next
	}
	for i := range 5 {
		write(fmt.Sprint("other-", i), "slack", 4, int(quotaBudget)/namespaceShare/5)
	}
	if n := storedOf(t, b, streamDeadLetters, deadSubject("flood", "slack")); n > 13 {
		t.Errorf("%d letters of 20 KiB are kept, the quota is 256 KiB", n)
	}
}

// TestT6TheLettersOfManyProvidersAreBounded is T6. Fails when letters of Providers beyond those that are counted each are in no quota.
func TestT6TheLettersOfManyProvidersAreBounded(t *testing.T) {
	t.Parallel()
	b, write := letterWriter(t, 1000)
	for i := range 2 * maxQuotaSubjects { // four times the quota
		write("flood", fmt.Sprint("provider-", i), 1, 4*int(quotaBudget)/namespaceShare/(2*maxQuotaSubjects))
	}
	for i := range 4 {
		write(fmt.Sprint("other-", i), "slack", 4, int(quotaBudget)/namespaceShare/5)
	}
	kept := storedOf(t, b, streamDeadLetters, prefixDead+token("flood")+".*")
	if most := maxQuotaSubjects / 2; kept > most {
		t.Errorf("%d letters are kept, the quota has room for %d", kept, most)
	}
}

// eventWriter opens a bus where EVENTS is small. write publishes n events of a namespace, each about an object of its own, has them handled
// if they are read, and then enforces the quotas.
func eventWriter(t *testing.T, read bool) (b *Bus, write func(namespace string, n int)) {
	t.Helper()
	b = open(t, t.TempDir(), func(o *Options) { o.Budgets.Events = quotaBudget })
	ctx, written := testContext(t), 0
	if read {
		start(t, routeTo(b, make(chan *event.Record, 1000)))
		start(t, subscribeTo(b, make(chan *event.Record, 1000)))
	}
	return b, func(namespace string, n int) {
		for range n {
			written++
			r := testRecord(fmt.Sprint(written), namespace, fmt.Sprint("app-", written))
			r.Event.Message = strings.Repeat("x", 8<<10)
			_, err := b.PublishEvent(ctx, r)
			must(t, err)
		}
		must(t, b.stats.refresh(ctx))
		for state, _ := b.stats.state(streamEvents); read && b.stats.handled() < state.LastSeq; {
			must(t, fair.Sleep(ctx, cursorInterval))
			must(t, b.stats.refresh(ctx))
		}
		must(t, b.enforceQuotas(ctx))
	}
}

// TestT6AFloodOfEventsPushesOutNoneOfAnotherNamespace is T6. Fails when what a namespace has in EVENTS is not bounded: of the others' events
// none would be listed, and of their deliveries no text.
func TestT6AFloodOfEventsPushesOutNoneOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	b, write := eventWriter(t, true)
	write("modest.one", 20)
	for range 16 {
		write("flood", 32) // 4 MiB in all
	}
	write("modest.one", 1)
	if n := storedOf(t, b, streamEvents, prefixEvents+token("modest.one")+".>"); n != 21 {
		t.Errorf("of 21 events of another namespace %d are kept", n)
	}
	const quota, half = int(quotaBudget) / namespaceShare / (8 << 10), int(quotaBudget) / 2 / (8 << 10)
	if n := storedOf(t, b, streamEvents, prefixEvents+"flood.>"); n < quota/2 || n > half {
		t.Errorf("of the flood %d events are kept, want from %d to half of the stream, %d", n, quota/2, half)
	}
}

// Invariant E2: fails when a namespace's quota has events purged that were not routed.
func TestE2EventsBeyondAQuotaStayUntilTheyAreRouted(t *testing.T) {
	t.Parallel()
	b, write := eventWriter(t, false)
	write("flood", 150) // more than half of the stream
	if n := storedOf(t, b, streamEvents, prefixEvents+"flood.>"); n != 150 {
		t.Errorf("of 150 events that were not routed %d are kept", n)
	}
}

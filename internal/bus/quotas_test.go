package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event/view"
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

// TestWhatAStreamHasDiscardedIsNotInAQuota fails when what a Provider wrote and has no longer counts for its namespace's quota:
// the namespace would lose the dead letters of its other Providers, though it has little. Fails when one large letter has all others counted
// as large ones.
func TestWhatAStreamHasDiscardedIsNotInAQuota(t *testing.T) {
	t.Parallel()
	const most = 8
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.DeadLetters, o.DeadPerProvider = quotaBudget, most })
	ctx, written := testContext(t), 0
	write := func(namespace, provider string, n, size int) {
		for range n {
			written++
			d := testDelivery(fmt.Sprint(written), namespace, provider)
			d.Event.Message = strings.Repeat("x", size)
			must(t, b.DeadLetter(ctx, &d, "client", "refused"))
		}
		must(t, b.stats.refresh(ctx))
		must(t, b.enforceQuotas(ctx))
	}
	for i := range 6 { // most of the stream
		write(fmt.Sprint("other-", i), "slack", 4, int(quotaBudget)/namespaceShare/5)
	}
	write("team", "quiet", 3, 8<<10)
	write("team", "broken", 1, 100<<10)
	write("team", "broken", 70, 8<<10) // twice the quota
	kept := func(provider string) int { return storedOf(t, b, streamDeadLetters, deadSubject("team", provider)) }
	if quiet, broken := kept("quiet"), kept("broken"); quiet != 3 || broken != most {
		t.Errorf("of 3 letters of a Provider %d are kept, beside %d of another", quiet, broken)
	}
}

package bus

import (
	"testing"

	"notifier/internal/event/view"
)

// E3. Fails when an owner is shown a sent delivery although no history is kept, or when a sent delivery is not recognized after a restart.
func TestE3WithoutAHistorySentDeliveriesAreKnownAndNotShown(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), testContext(t)
	without := func(o *Options) { o.NoHistory = true }
	b := open(t, dir, without)
	sent, dead := testDelivery("sent", "team", "slack"), testDelivery("dead", "team", "slack")
	sent.Order, dead.Order = 1, 2
	must(t, b.Sent(ctx, &sent))
	must(t, b.DeadLetter(ctx, &dead, "refused", "the destination refused it"))
	closeBus(t, b)

	b = open(t, dir, without)
	if known, err := b.WasSent(ctx, &sent); err != nil || !known {
		t.Errorf("what was sent is known: %t, %v", known, err)
	}
	shown := all(ctx, t, b, "team", view.Query{})
	if len(shown) != 1 || shown[0].ID != "dead" {
		t.Errorf("shown are %+v, want the dead letter alone", shown)
	}
	if _, err := b.FindDelivery(ctx, "team", "sent"); err == nil {
		t.Error("what was sent is found by its ID")
	}
}

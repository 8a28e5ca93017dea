package bus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// Fails when admit lets everything pass, or counts all namespaces together.
func TestANamespaceOverItsQuotaGetsDeadLettersAndOthersDoNot(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.NamespaceQuota = 10 / wallFactor })
	ctx := testContext(t)
	for i := range 4 { // on the schedule counts as well
		d := testDelivery(fmt.Sprint("parked", i), "loud", "slack")
		d.Parks = 1
		must(t, b.Park(ctx, &d, time.Now().Add(time.Hour)))
	}
	var ds []event.Delivery
	for i := range 20 {
		ds = append(ds, testDelivery(fmt.Sprint("loud", i), "loud", "slack"), testDelivery(fmt.Sprint("lou", i), "lou", fmt.Sprint(i%3)))
	}
	must(t, publishDeliveries(ctx, b, ds))
	for namespace, want := range map[string]int{"loud": 10, "lou": 10, "other": 0} {
		if n, err := b.pending(ctx, namespace); err != nil || n != want {
			t.Errorf("%s has %d pending, want %d (%v)", namespace, n, want, err)
		}
	}
	counts := map[string]int{}
	for _, m := range deadLetters(t, b) {
		if header(m.Header, headerReason) != reasonQuota {
			t.Errorf("reason %s", header(m.Header, headerReason))
		}
		counts[m.Subject+" "+header(m.Header, headerLabel)]++
	}
	want := map[string]int{"notifier.dead.loud.slack quota": 14}
	for p, n := range map[int]int{0: 0, 1: 0, 2: 0} {
		for i := 10; i < 20; i++ {
			if i%3 == p {
				n++
			}
		}
		want[fmt.Sprintf("notifier.dead.lou.%d quota", p)] = n
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("quiet", "quiet", "slack")}))
	if n, err := b.pending(ctx, "quiet"); err != nil || n != 1 {
		t.Errorf("quiet has %d pending (%v)", n, err)
	}
}

// Fails when effective does not shrink: the stream then grows past its budget.
func TestTheQuotaShrinksAsTheStreamFillsUp(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Deliveries = 4 * mib })
	ctx := testContext(t)
	for round := range 40 { // ten namespaces, whose shares together are more than the budget
		var ds []event.Delivery
		for n := range 10 {
			d := testDelivery(fmt.Sprint(round, ".", n), fmt.Sprintf("loud-%d", n), "slack")
			d.Event.Message = strings.Repeat("x", 16<<10)
			ds = append(ds, d)
		}
		must(t, publishDeliveries(ctx, b, ds))
		must(t, b.stats.refresh(ctx))
	}
	bytes, _ := b.stats.deliveries()
	if bytes > 4*mib || bytes < 2*mib {
		t.Errorf("the stream has %d bytes", bytes)
	}
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("quiet", "quiet", "slack")}))
	if n, err := b.pending(ctx, "quiet"); err != nil || n != 1 {
		t.Errorf("quiet has %d pending (%v)", n, err)
	}
}

// E9: a forger who floods a namespace uses up the share of unknown objects, and genuine events have the rest. Fails when admit does
// not ask whether the object is known.
func TestE9ForgedEventsLeaveRoomForGenuineOnes(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.NamespaceQuota = 10 })
	ctx := testContext(t)
	var forged []event.Delivery
	for i := range 60 {
		d := testDelivery(fmt.Sprint("forged", i), "team-a", "slack")
		d.Known = false
		forged = append(forged, d)
	}
	must(t, publishDeliveries(ctx, b, forged))
	if n, err := b.pending(ctx, "team-a"); err != nil || n != 10 {
		t.Errorf("%d forged deliveries are pending, want half of what the wall allows (%v)", n, err)
	}
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("genuine", "team-a", "slack")}))
	if n, err := b.pending(ctx, "team-a"); err != nil || n != 11 {
		t.Errorf("%d deliveries are pending, want the genuine one as well (%v)", n, err)
	}
}

// One event may match very many Alerts, and each delivery carries the whole event. Fails when all are encoded before the first is
// written, or when a namespace's bytes are not counted.
func TestDeliveriesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Deliveries = 64 << 20 })
	ctx := testContext(t)
	text := strings.Repeat("x", 1<<20)
	var ds []event.Delivery
	for i := range 12 {
		d := testDelivery(fmt.Sprint("large", i), "loud", "slack")
		d.Event.Message = text
		ds = append(ds, d)
	}
	must(t, publishDeliveries(ctx, b, ds))
	if n, err := b.pending(ctx, "loud"); err != nil || n != 7 {
		t.Errorf("%d deliveries of 1 MiB are pending, want those that fit an eighth of 64 MiB (%v)", n, err)
	}
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("quiet", "quiet", "slack")}))
	if n, err := b.pending(ctx, "quiet"); err != nil || n != 1 {
		t.Errorf("%d of another namespace are pending, want 1 (%v)", n, err)
	}
}

// E5: a Provider that takes nothing fills its namespace's wall, and another Provider of the namespace still has room, an even share of it.
// Fails when admit refuses what is beyond the wall whoever it is for, or when recount does not tell Providers apart.
func TestE5AFullNamespaceHasRoomForAProviderThatHasLittle(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.NamespaceQuota = 20 })
	ctx := testContext(t)
	for i := range 60 {
		must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery(fmt.Sprint("down", i), "team", "down")}))
	}
	b.quota = newQuota(b) // as after a restart: what is there is counted
	for i := range 60 {
		must(t, publishDeliveries(ctx, b, []event.Delivery{
			testDelivery(fmt.Sprint("more", i), "team", "down"), testDelivery(fmt.Sprint("up", i), "team", "up"),
		}))
	}
	c, err := b.quota.recount(ctx, "team", nil)
	must(t, err)
	if down, up := c.providers["down"].n, c.providers["up"].n; down != 40 || up != 20 {
		t.Errorf("%d wait for the Provider that is down and %d for the other, want 40 and 20", down, up)
	}
}

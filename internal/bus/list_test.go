package bus

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// keep writes n deliveries of a namespace, of which a third each was sent, was given up and waits, and returns their IDs, oldest first.
func keep(ctx context.Context, t testing.TB, b *Bus, namespace string, n int) (ids []string) {
	t.Helper()
	for i := range n {
		d := testDelivery(fmt.Sprintf("%s-%03d", namespace, i), namespace, fmt.Sprint("provider.", i%2))
		d.Order = uint64(i + 1)
		switch i % 3 {
		case 0:
			must(t, b.Sent(ctx, &d))
		case 1:
			must(t, b.DeadLetter(ctx, &d, "refused", "the destination refused it"))
		case 2:
			d.LastError, d.Attempts = "no answer", 1
			must(t, b.Reschedule(ctx, &d, time.Now().Add(time.Hour)))
		}
		ids = append(ids, d.ID)
	}
	return ids
}

func listed(page view.Page[view.Delivery]) (ids []string) {
	for _, d := range page.Items {
		ids = append(ids, d.ID)
	}
	return ids
}

// all reads a list to its end.
func all(ctx context.Context, t testing.TB, b *Bus, namespace string, q view.Query) (found []view.Delivery) {
	t.Helper()
	for range 1000 {
		page, err := b.ListDeliveries(ctx, namespace, q)
		must(t, err)
		found = append(found, page.Items...)
		if page.Next == "" {
			return found
		}
		q.Cursor = page.Next
	}
	t.Fatal("the list does not end")
	return nil
}

// Fails when a stream is left out, when the streams are not merged by time, or when a page repeats or leaves out something at its end.
func TestDeliveriesAreListedNewestFirstOverAllStreams(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	want := keep(ctx, t, b, "my.team", 40)
	keep(ctx, t, b, "other", 40)
	slices.Reverse(want)
	for _, limit := range []int{0, 1, 7, 500} {
		var got []string
		for _, d := range all(ctx, t, b, "my.team", view.Query{Limit: limit}) {
			got = append(got, d.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v", limit, got)
		}
	}
	page, err := b.ListDeliveries(ctx, "nobody", view.Query{})
	if err != nil || len(page.Items) != 0 || page.Next != "" {
		t.Errorf("a namespace without deliveries: %+v (%v)", page, err)
	}
}

// Fails when a state is not told, or what is told of it.
func TestAListedDeliveryTellsItsState(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	keep(ctx, t, b, "team", 3)
	page, err := b.ListDeliveries(ctx, "team", view.Query{})
	must(t, err)
	if len(page.Items) != 3 {
		t.Fatalf("listed %d", len(page.Items))
	}
	pending, dead, sent := page.Items[0], page.Items[1], page.Items[2]
	if pending.State != view.StatePending || pending.Failure != "no answer" || pending.Attempts != 1 || time.Until(pending.Next) < 59*time.Minute {
		t.Errorf("pending: %+v", pending)
	}
	if dead.State != view.StateDead || dead.Failure != "the destination refused it" || dead.Class != "refused" {
		t.Errorf("dead: %+v", dead)
	}
	want := view.Delivery{
		ID: "team-000", Namespace: "team", Alert: "alert", Provider: "provider.0", Object: view.Object{Kind: "Kustomization", Name: "app"},
		Reason: "ReconciliationSucceeded", Severity: event.SeverityInfo, State: view.StateSent, Time: sent.Time,
		Routed: time.Unix(1_700_000_002, 0).UTC(), Order: 1,
	}
	if sent != want || time.Since(sent.Time) > time.Minute {
		t.Errorf("sent: %+v", sent)
	}
}

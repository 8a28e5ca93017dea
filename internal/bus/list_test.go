package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/bus/browse"
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

// Fails when a stream is left out, when the streams are not merged by time, or when a page repeats or omits an item at its end.
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

// Fails when the state of a delivery, or a field of that state, is not listed, or when a dead letter is not at its place: a replay on request
// reads it there.
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
	letter, _, err := b.NextDead(ctx, "team", dead.Provider, time.Time{}, dead.Seq)
	if must(t, err); letter == nil || letter.Seq != dead.Seq || letter.Delivery.ID != dead.ID {
		t.Errorf("dead: at its place %d is %+v", dead.Seq, letter)
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

// indirect has lists read from the streams' leaders, as with several copies of each stream.
func indirect(b *Bus) { b.opts.Replicas = 3 }

// sparse writes deliveries of two namespaces, a few of one among very many of the other, and returns the IDs of the few, oldest first.
func sparse(ctx context.Context, t testing.TB, b *Bus, n, gap int) (few []string) {
	t.Helper()
	for i := range n {
		d := testDelivery(fmt.Sprint(i), "many", fmt.Sprint("p", i%5))
		if i%gap == gap/2 {
			d.Namespace, d.Event.InvolvedObject.Namespace = "few", "few"
			few = append(few, d.ID)
		}
		body, err := encodeJSON(sentRecord(&d, time.Now()))
		must(t, err)
		_, err = b.js.PublishMsgAsync(newMsg(historySubject(&d), body))
		must(t, err)
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-ctx.Done():
		t.Fatal("not stored")
	}
	return few
}

// Fails when a window is left out, read twice or not made smaller where there are many messages, by either way of reading.
func TestRareAndDenseDeliveriesAreAllListed(t *testing.T) {
	const gap = 700
	for name, tc := range map[string]struct {
		n      int
		change func(*Bus)
	}{"directly": {20_000, func(*Bus) {}}, "from the leader": {5000, indirect}} {
		t.Run(name, func(t *testing.T) {
			n := tc.n
			b := open(t, t.TempDir(), nil)
			ctx := testContext(t)
			want := sparse(ctx, t, b, n, gap)
			tc.change(b)
			slices.Reverse(want)
			var got []string
			for _, d := range all(ctx, t, b, "few", view.Query{Limit: 7}) {
				got = append(got, d.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the few: %v", got)
			}
			many := all(ctx, t, b, "many", view.Query{Limit: view.MaxLimit})
			if len(many) != n-len(want) {
				t.Errorf("%d of the many", len(many))
			}
			if !slices.IsSortedFunc(many, func(a, b view.Delivery) int { return b.Time.Compare(a.Time) }) {
				t.Error("not newest first")
			}
			some := all(ctx, t, b, "many", view.Query{Provider: "p3", Limit: view.MaxLimit})
			if len(some) < n/5-len(want) || some[0].Provider != "p3" {
				t.Errorf("%d of one Provider", len(some))
			}
		})
	}
}

// Fails when a window has more messages than are kept at a time and the others are left out. That happens behind a place from which on
// messages are rare.
func TestAWindowWithMoreThanIsHeldLosesNothing(t *testing.T) {
	const dense, rare = 1500, 3000
	for name, change := range map[string]func(*Bus){"directly": func(*Bus) {}, "from the leader": indirect} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir(), nil)
			ctx := testContext(t)
			for i := range dense + rare {
				d := testDelivery(fmt.Sprint(i), "team", "slack")
				if i >= dense && i < dense+rare-1 {
					d.Namespace = "other"
				}
				body, err := encodeJSON(sentRecord(&d, time.Now()))
				must(t, err)
				_, err = b.js.PublishMsgAsync(newMsg(historySubject(&d), body))
				must(t, err)
			}
			<-b.js.PublishAsyncComplete()
			change(b)
			if got := all(ctx, t, b, "team", view.Query{Limit: 100}); len(got) != dense+1 {
				t.Errorf("%d of %d", len(got), dense+1)
			}
		})
	}
}

// Fails when a filter selects a wrong delivery or omits a right one, or when a time bounds the list at another place.
func TestFiltersSelectDeliveries(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	r := published(t, b, "event", "team", "app")
	keep(ctx, t, b, "team", 30)
	d := testDelivery("special", "team", "teams")
	d.Order, d.Alert, d.Event.InvolvedObject.Name = r.Seq, "other", "db"
	must(t, b.Sent(ctx, &d))
	every := all(ctx, t, b, "team", view.Query{})
	at := every[10].Time
	before := len(slices.DeleteFunc(slices.Clone(every), func(d view.Delivery) bool { return !d.Time.Before(at) }))
	for _, tc := range []struct {
		query view.Query
		want  int
	}{
		{view.Query{State: view.StateSent}, 11},
		{view.Query{State: view.StateDead}, 10},
		{view.Query{State: view.StatePending}, 10},
		{view.Query{Provider: "teams"}, 1},
		{view.Query{Provider: "provider.0"}, 15},
		{view.Query{Provider: "*"}, 0},
		{view.Query{Provider: ">"}, 0},
		{view.Query{Alert: "other"}, 1},
		{view.Query{Object: "kustomization/DB"}, 1},
		{view.Query{Object: "db"}, 0},
		{view.Query{Event: "event"}, 2},
		{view.Query{Event: "none"}, 0},
		{view.Query{Provider: "provider.0", State: "other"}, 0},
		{view.Query{Until: at}, before},
		{view.Query{Since: at}, len(every) - before},
		{view.Query{Since: at, Until: at}, 0},
		{view.Query{Since: time.Now().Add(time.Hour)}, 0},
		{view.Query{Until: time.Unix(1, 0)}, 0},
		{view.Query{Since: time.Unix(1, 0)}, 31},
	} {
		for _, limit := range []int{3, 100} {
			tc.query.Limit = limit
			if got := all(ctx, t, b, "team", tc.query); len(got) != tc.want {
				t.Errorf("%+v: %d deliveries, want %d", tc.query, len(got), tc.want)
			}
		}
	}
}

// Fails when a cursor leads to another namespace's deliveries, or is accepted for another list.
func TestAHostileCursorShowsNothingOfOthers(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	keep(ctx, t, b, "team", 9)
	keep(ctx, t, b, "other", 9)
	page, err := b.ListDeliveries(ctx, "other", view.Query{Limit: 1})
	must(t, err)
	for _, cursor := range []string{page.Next, "x", page.Next + "AA"} {
		if got, err := b.ListDeliveries(ctx, "team", view.Query{Cursor: cursor}); !errors.Is(err, view.ErrBadCursor) {
			t.Errorf("%q: %+v (%v)", cursor, got, err)
		}
	}
	if _, err := b.ListEvents(ctx, "other", view.Query{Cursor: page.Next}); !errors.Is(err, view.ErrBadCursor) {
		t.Errorf("a cursor of deliveries for events: %v", err)
	}
	for _, below := range []uint64{0, 1, 5, 1 << 20, 1 << 62, 1<<64 - 1} {
		for _, rest := range []uint64{0, 1, 1<<64 - 1} {
			list, err := b.deliveries(ctx, "team", view.Query{}, 0)
			must(t, err)
			p := browse.Place{Below: below, Rest: rest}
			got, err := list.Page(ctx, view.Query{Cursor: list.Cursor(p, p, p)})
			must(t, err)
			for _, d := range got.Items {
				if d.Namespace != "team" || !strings.HasPrefix(d.ID, "team-") {
					t.Errorf("at %d: %+v", below, d)
				}
			}
		}
	}
}

// Fails when a cursor is of no use after a restart, or the order is another one.
func TestAListGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	want := keep(ctx, t, b, "team", 20)
	slices.Reverse(want)
	first, err := b.ListDeliveries(ctx, "team", view.Query{Limit: 8})
	must(t, err)
	die(b)
	b = open(t, dir, nil)
	d := testDelivery("newer", "team", "slack")
	must(t, b.Sent(ctx, &d))
	second, err := b.ListDeliveries(ctx, "team", view.Query{Limit: 50, Cursor: first.Next})
	must(t, err)
	if got := append(listed(first), listed(second)...); !slices.Equal(got, want) {
		t.Errorf("listed %v", got)
	}
}

// Fails when the number of lists that are read at a time has no bound, or a waiting one is not refused in the end.
func TestOnlySoManyListsAreReadAtATime(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	all, err := b.reads.turns.Acquire(ctx, maxReads)
	must(t, err)
	if _, err := b.ListDeliveries(ctx, "team", view.Query{}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	all.Release()
	if _, err := b.ListDeliveries(ctx, "team", view.Query{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Fails when nothing is listed or followed any more after the server has closed the connection of the reads for good, as it does for a fault
// of the protocol. This process is ready all the same, so nobody would restart it.
func TestListsAreReadByANewConnectionAfterTheirsWasClosed(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	published(t, b, "event", "team", "app")
	for range 2 {
		page, err := b.ListEvents(ctx, "team", view.Query{})
		must(t, err)
		if len(page.Items) != 1 {
			t.Errorf("%d events are listed, want 1", len(page.Items))
		}
		b.reads.js.Conn().Close()
	}
	items := followTo(t, b, "team", view.Events)
	published(t, b, "new", "team", "app")
	if got := receive(t, items).(view.Event); got.ID != "new" {
		t.Errorf("followed %+v", got)
	}
}

// Fails when what is listed since a time, or until one, lacks what a replica accepted or sent then by a clock that differs from the server's.
func TestListsSinceATimeAreCompleteThoughClocksDiffer(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	now := time.Now()
	ahead, behind := now.Add(50*time.Second), now.Add(-50*time.Second)
	for id, at := range map[string]time.Time{"ahead": ahead, "behind": behind} {
		r := testRecord(id, "team", "app-"+id)
		r.Accepted = at
		_, err := b.PublishEvent(ctx, r)
		must(t, err)
		must(t, b.RecordWebhooks(ctx, "team", "r", []view.Webhook{{Namespace: "team", Receiver: "r", Result: id, Time: at}}))
	}
	for id, q := range map[string]view.Query{"ahead": {Since: ahead.Add(-time.Second)}, "behind": {Until: behind.Add(time.Second)}} {
		events, err := b.ListEvents(ctx, "team", q)
		must(t, err)
		if len(events.Items) != 1 || events.Items[0].ID != id {
			t.Errorf("%s: events %+v", id, events.Items)
		}
		webhooks, err := b.ListWebhooks(ctx, "team", q)
		must(t, err)
		if len(webhooks.Items) != 1 || webhooks.Items[0].Result != id {
			t.Errorf("%s: webhooks %+v", id, webhooks.Items)
		}
	}
}

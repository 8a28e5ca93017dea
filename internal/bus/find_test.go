package bus

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// published writes an event and returns it with its place.
func published(t testing.TB, b *Bus, id, namespace, name string) *event.Record {
	t.Helper()
	r := testRecord(id, namespace, name)
	_, err := b.PublishEvent(testContext(t), r)
	must(t, err)
	return r
}

// Fails when the deliveries of an event are not listed, or not found, that were stored earlier by the clock of the server than the event was
// accepted by the clock of a replica.
func TestDeliveriesAreFoundThoughAReplicasClockIsAhead(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	r := testRecord("event", "team", "app")
	r.Accepted = time.Now().Add(30 * time.Second)
	_, err := b.PublishEvent(ctx, r)
	must(t, err)
	for _, id := range []string{"sent", "dead"} {
		d := testDelivery(id, "team", "slack")
		d.Order = r.Seq
		if id == "sent" {
			must(t, b.Sent(ctx, &d))
		} else {
			must(t, b.DeadLetter(ctx, &d, "refused", "the destination refused it"))
		}
	}
	page, err := b.ListDeliveries(ctx, "team", view.Query{Event: "event"})
	must(t, err)
	if len(page.Items) != 2 {
		t.Errorf("listed %v", listed(page))
	}
	found, err := b.FindDeliveries(ctx, "team", r.Accepted, []string{"sent", "dead"})
	must(t, err)
	if len(found) != 2 {
		t.Errorf("found %v", found)
	}
}

// Fails when a delivery is not found in one of its states, when its message is not that of its event with the metadata of the Alert's
// author, or when another namespace finds it.
func TestADeliveryIsFoundInEachStateWithItsMessage(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	r := published(t, b, "event", "team", "app")
	tried := event.Attempt{Time: time.Unix(1_700_000_003, 0).UTC(), Millis: 20, Class: "refused", Status: 503, Failure: "unavailable"}
	made := func(id string) *event.Delivery {
		d := testDelivery(id, "team", "slack.ops")
		d.Order, d.Event = r.Seq, r.Event
		d.Event.Metadata = map[string]string{"summary": "by the Alert"}
		d.Authored, d.Tries = []string{"summary"}, []event.Attempt{tried}
		return &d
	}
	must(t, b.Sent(ctx, made("sent")))
	must(t, b.DeadLetter(ctx, made("dead"), "refused", "the destination refused it"))
	must(t, b.Reschedule(ctx, made("waits"), time.Now().Add(time.Hour)))
	for id, state := range map[string]view.State{"sent": view.StateSent, "dead": view.StateDead, "waits": view.StatePending} {
		d, err := b.FindDelivery(ctx, "team", id)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		message := view.EventOf(r)
		message.Metadata = map[string]string{"summary": "by the Alert"}
		if d.State != state || d.Order != r.Seq || d.Provider != "slack.ops" || !slices.Equal(d.Authored, []string{"summary"}) {
			t.Errorf("%s: %+v", id, d)
		}
		if diff := cmp.Diff(&message, d.Message); diff != "" {
			t.Errorf("message of %s (-want +got):\n%s", id, diff)
		}
		tries := []view.Attempt{tried}
		if state == view.StateSent {
			tries = append(tries, view.Attempt{Time: d.Tries[len(d.Tries)-1].Time, Class: event.ClassSent})
		}
		if diff := cmp.Diff(tries, d.Tries); diff != "" {
			t.Errorf("tries of %s (-want +got):\n%s", id, diff)
		}
		if _, err := b.FindDelivery(ctx, "other", id); !errors.Is(err, view.ErrNotFound) {
			t.Errorf("another namespace finds %s: %v", id, err)
		}
	}
	for _, accepted := range []time.Time{{}, r.Accepted, time.Now().Add(-2 * soon), time.Now().Add(-time.Minute)} { // sent soon, or late
		found, err := b.FindDeliveries(ctx, "team", accepted, []string{"sent", "dead", "waits", "", strings.Repeat("x", 1000), "none"})
		must(t, err)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"dead", "sent", "waits"}) {
			t.Errorf("of an event of %s: %v", accepted, got)
		}
	}
	for _, id := range []string{"", "sen", "*", ">", "sent.", `"sent"`, strings.Repeat("x", 1<<16)} {
		if _, err := b.FindDelivery(ctx, "team", id); !errors.Is(err, view.ErrNotFound) {
			t.Errorf("%.20q is found: %v", id, err)
		}
	}
}

// Fails when the message of a delivery is taken from an event of another namespace or object at its order.
func TestADeliverysMessageIsOfItsObject(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	for _, r := range []*event.Record{published(t, b, "1", "other", "app"), published(t, b, "2", "team", "another")} {
		d := testDelivery("of "+r.ID, "team", "slack")
		d.Order = r.Seq
		must(t, b.Sent(ctx, &d))
		if got, err := b.FindDelivery(ctx, "team", d.ID); err != nil || got.Message != nil {
			t.Errorf("%s: %+v (%v)", d.ID, got.Message, err)
		}
	}
}

// Fails when a list of events has another namespace's or is not newest first, or when an event is not found by its ID or its place.
func TestEventsAreListedAndFound(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	first, _, last := published(t, b, "1", "my.team", "app"), published(t, b, "2", "other", "app"), published(t, b, "3", "my.team", "db.x")
	page, err := b.ListEvents(ctx, "my.team", view.Query{})
	must(t, err)
	if diff := cmp.Diff([]view.Event{view.EventOf(last), view.EventOf(first)}, page.Items); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	for object, want := range map[string]int{"kustomization/db.x": 1, "Kustomization/app": 1, "HelmRelease/app": 0, "Kustomization/none": 0} {
		if page, err := b.ListEvents(ctx, "my.team", view.Query{Object: object}); err != nil || len(page.Items) != want {
			t.Errorf("%s: %d events (%v)", object, len(page.Items), err)
		}
	}
	if r, err := b.FindEvent(ctx, "my.team", "3"); err != nil || cmp.Diff(last, r) != "" {
		t.Errorf("found %+v (%v)", r, err)
	}
	if r, err := b.EventAt(ctx, "my.team", first.Seq); err != nil || cmp.Diff(first, r) != "" {
		t.Errorf("at its place: %+v (%v)", r, err)
	}
	if _, err := b.FindEvent(ctx, "my.team", "2"); !errors.Is(err, view.ErrNotFound) {
		t.Errorf("another namespace's event is found: %v", err)
	}
	for _, order := range []uint64{0, 2, 99, 1 << 63} {
		if _, err := b.EventAt(ctx, "my.team", order); !errors.Is(err, view.ErrNotFound) {
			t.Errorf("at %d: %v", order, err)
		}
	}
}

// Fails when a lookup does not work through the streams' leaders, which answer in another form.
func TestLookupsWorkThroughTheLeader(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	indirect(b)
	ctx := testContext(t)
	r := published(t, b, "event", "team", "app")
	items := followTo(t, b, "team", view.Deliveries)
	for id, store := range map[string]func(*event.Delivery) error{
		"sent":  func(d *event.Delivery) error { return b.Sent(ctx, d) },
		"dead":  func(d *event.Delivery) error { return b.DeadLetter(ctx, d, "refused", "no") },
		"waits": func(d *event.Delivery) error { return b.Reschedule(ctx, d, time.Now().Add(time.Hour)) },
	} {
		d := testDelivery(id, "team", "slack")
		d.Order = r.Seq
		must(t, store(&d))
		if got := receive(t, items).(view.Delivery); got.ID != id {
			t.Errorf("followed %+v", got)
		}
		if found, err := b.FindDelivery(ctx, "team", id); err != nil || found.ID != id || found.Message == nil || found.Message.ID != r.ID {
			t.Errorf("%s: %+v (%v)", id, found, err)
		}
	}
	if found, err := b.FindEvent(ctx, "team", "event"); err != nil || cmp.Diff(r, found) != "" {
		t.Errorf("found %+v (%v)", found, err)
	}
	if page, err := b.ListEvents(ctx, "team", view.Query{Since: r.Accepted}); err != nil || len(page.Items) != 1 {
		t.Errorf("listed %+v (%v)", page, err)
	}
	if _, err := b.EventAt(ctx, "team", 99); !errors.Is(err, view.ErrNotFound) {
		t.Errorf("where there is nothing: %v", err)
	}
}

// E3: fails when the history is kept for less time than a delivery may wait, or for less time than the options say.
func TestE3TheHistoryIsKeptLongEnough(t *testing.T) {
	dir := t.TempDir()
	for _, age := range []time.Duration{time.Hour, MinHistoryAge - time.Second, MaxHistoryAge + time.Second, -time.Hour} {
		if b, err := Open(testContext(t), testOptions(dir, func(o *Options) { o.HistoryAge = age })); err == nil {
			closeBus(t, b)
			t.Errorf("%s is accepted", age)
		}
	}
	for age, want := range map[time.Duration]time.Duration{0: DefaultHistoryAge, MinHistoryAge: MinHistoryAge} {
		b := open(t, dir, func(o *Options) { o.HistoryAge = age })
		info, err := b.streams[streamHistory].Info(testContext(t))
		must(t, err)
		if info.Config.MaxAge != want {
			t.Errorf("kept for %s, want %s", info.Config.MaxAge, want)
		}
		closeBus(t, b)
	}
}

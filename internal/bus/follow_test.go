package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/event/view"
)

// followTo follows a list and sends its items to a channel. It returns when all messages stored from now on are followed.
func followTo(t testing.TB, b *Bus, namespace string, list view.List) <-chan any {
	t.Helper()
	items := make(chan any, 100)
	start(t, func(ctx context.Context) error {
		return b.Follow(ctx, namespace, list, news(func(item any) { items <- item }))
	})
	if first := receive(t, items); first != any(view.Begun{}) {
		t.Fatalf("begins with %+v", first)
	}
	return items
}

// news returns a handler of Follow that passes on all but what says how far the streams are read.
func news(handle func(item any)) func(any) error {
	return func(item any) error {
		if _, is := item.(view.Reached); !is {
			handle(item)
		}
		return nil
	}
}

// Fails when Follow reports its begin before its place is known: a message stored in between would be neither listed nor followed.
func TestNothingIsMissedBetweenListingAndFollowing(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	items := make(chan any, 10)
	b.reads.mu.Lock() // so that no request to the stream can be made
	start(t, func(ctx context.Context) error {
		return b.Follow(ctx, "team", view.Events, news(func(item any) { items <- item }))
	})
	feed := b.reads.feeds[view.Events][0]
	for joined := 0; joined == 0; {
		must(t, ctx.Err())
		feed.mu.Lock()
		joined = len(feed.followers)
		feed.mu.Unlock()
	}
	published(t, b, "before", "team", "app")
	if n := len(items); n > 0 {
		t.Errorf("%d items before it is known where the stream ends", n)
	}
	b.reads.mu.Unlock()
	if first := receive(t, items); first != any(view.Begun{}) {
		t.Fatalf("begins with %+v", first)
	}
	published(t, b, "after", "team", "app")
	if got := receive(t, items).(view.Event); got.ID != "after" {
		t.Errorf("followed %+v", got)
	}
	page, err := b.ListEvents(ctx, "team", view.Query{})
	must(t, err)
	if n := len(page.Items); n != 2 {
		t.Errorf("%d events are listed", n)
	}
}

// Fails when a follower misses new items of one of the streams, or gets old ones or another namespace's.
func TestFollowersGetWhatIsNewOfTheirNamespace(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	keep(ctx, t, b, "team", 3)
	published(t, b, "old", "team", "app")
	items, events := followTo(t, b, "team", view.Deliveries), followTo(t, b, "team", view.Events)
	second := followTo(t, b, "team", view.Events)
	keep(ctx, t, b, "other", 3)
	published(t, b, "foreign", "other", "app")
	d := testDelivery("new", "team", "slack")
	must(t, b.Sent(ctx, &d))
	must(t, b.DeadLetter(ctx, &d, "refused", "no"))
	must(t, b.Reschedule(ctx, &d, time.Now().Add(time.Hour)))
	states := map[view.State]bool{}
	for range 3 {
		got := receive(t, items).(view.Delivery)
		states[got.State] = got.ID == "new" && got.Namespace == "team"
	}
	if !states[view.StateSent] || !states[view.StateDead] || !states[view.StatePending] {
		t.Errorf("followed %v", states)
	}
	r := published(t, b, "new", "team", "app")
	for _, follower := range []<-chan any{events, second} {
		if got := receive(t, follower).(view.Event); got.ID != "new" || got.Order != r.Seq {
			t.Errorf("followed %+v", got)
		}
	}
	select {
	case item := <-items:
		t.Errorf("more: %+v", item)
	case item := <-events:
		t.Errorf("more: %+v", item)
	default:
	}
}

// Fails when a follower that does not take its items delays another one, or is not ended.
func TestASlowFollowerIsEndedAndHoldsUpNobody(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	items := followTo(t, b, "team", view.Events)
	stuck, ended, free := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		ended <- b.Follow(ctx, "team", view.Events, func(item any) error {
			if item == any(view.Begun{}) {
				return nil
			}
			select {
			case stuck <- struct{}{}:
			case <-free:
			}
			<-free
			return nil
		})
	}()
	feed := b.reads.feeds[view.Events][0]
	for joined := 1; joined < 2; {
		must(t, ctx.Err())
		feed.mu.Lock()
		joined = len(feed.followers["team"])
		feed.mu.Unlock()
	}
	const n = maxBehind + 3
	for i := range n {
		published(t, b, fmt.Sprint(i), "team", "app")
		if receive(t, items).(view.Event).ID != fmt.Sprint(i) {
			t.Fatal("not in order")
		}
	}
	receive(t, stuck)
	close(free)
	if err := receive(t, ended); !errors.Is(err, ErrSlow) {
		t.Errorf("ended with %v", err)
	}
}

// Fails when a stream without followers is read, or by more than one reader.
func TestFollowersShareOneReader(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	consumers := func() int {
		info, err := b.streams[streamEvents].Info(ctx)
		must(t, err)
		return info.State.Consumers
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for consumers() > 0 { // the start's own are removed soon
		must(t, ctx.Err())
		<-poll.C
	}
	const followers = 100
	var stops []func()
	begun, got := make(chan struct{}, followers), make(chan struct{}, followers)
	for i := range followers {
		stops = append(stops, start(t, func(ctx context.Context) error {
			return b.Follow(ctx, fmt.Sprint("team", i), view.Events, news(func(item any) {
				if item == any(view.Begun{}) {
					begun <- struct{}{}
				} else {
					got <- struct{}{}
				}
			}))
		}))
	}
	for range followers {
		receive(t, begun)
	}
	for i := range followers {
		published(t, b, fmt.Sprint(i), fmt.Sprint("team", i), "app")
	}
	for range followers {
		receive(t, got)
	}
	if n := consumers(); n != 1 {
		t.Errorf("%d readers", n)
	}
	for _, stop := range stops {
		stop()
	}
	for consumers() > 0 {
		must(t, ctx.Err())
		<-poll.C
	}
	if err := b.Follow(ctx, "team", "none", nil); err == nil {
		t.Error("a list that there is not is followed")
	}
}

// T6. A server has at most a thousand consumers of a stream. Fails when the reader of each watch that ended stays there for a while: a user
// who begins and ends fifty watches a second has them all, and neither the worker nor anybody else can read the stream.
func TestT6WatchesThatEndedLeaveNoReaders(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	published(t, b, "before", "team", "app")
	readers := func() (count int) {
		for _, stream := range allStreams {
			info, err := b.streams[stream].Info(ctx)
			must(t, err)
			count += info.State.Consumers
		}
		return count
	}
	const watches = 100
	errEnough := errors.New("enough")
	for name, enough := range map[string]func(item any) bool{
		"as it begins": func(any) bool { return true },
		"with an item": func(item any) bool { _, is := item.(view.Event); return is },
	} {
		before := readers()
		for i := range watches {
			err := b.Follow(ctx, "team", view.Events, func(item any) error {
				if enough(item) {
					return errEnough
				}
				published(t, b, fmt.Sprint(name, i), "team", "app")
				return nil
			})
			if !errors.Is(err, errEnough) {
				t.Fatal(err)
			}
		}
		if n := readers() - before; n > watches/4 { // the server may still be removing the last ones
			t.Errorf("%d of %d watches that ended %s have left a reader", n, watches, name)
		}
	}
}

package bus

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
)

// muteBucket is a bucket that does not answer requests for one key.
type muteBucket struct {
	jetstream.KeyValue
	key string
}

func (b muteBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if key == b.key {
		return nil, context.DeadlineExceeded
	}
	return b.KeyValue.Get(ctx, key)
}

// muteReader makes the bus not answer how far one reader of EVENTS is, until the returned function is called.
func muteReader(b *Bus, name string) (unmute func()) {
	bucket := b.buckets[bucketWorker]
	b.buckets[bucketWorker] = muteBucket{bucket, cursorKeys[name]}
	return func() { b.buckets[bucketWorker] = bucket }
}

// One slow answer must not make the events endpoint refuse every POST. Fails when refresh takes an error for a place that was
// never recorded, or forgets the bytes published since the last answer.
func TestAnUnknownReadPositionIsNotTakenForZero(t *testing.T) {
	for _, r := range []role{routeRole(), subscribeRole()} {
		t.Run(r.name, func(t *testing.T) {
			b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Events = mib })
			ctx := testContext(t)
			got := make(chan *event.Record)
			start(t, func(ctx context.Context) error {
				return b.Events(ctx, handlerOf(light, func(context.Context, []*event.Record) error { return nil }))
			})
			start(t, subscribeTo(b, got))
			var records []*event.Record
			for _, id := range ids(200) { // which fill more than three quarters
				record := testRecord(id, "team", "app")
				record.Event.Message = strings.Repeat("x", 4000)
				records = append(records, record)
			}
			publishRecords(t, b, records...)
			for range records {
				receive(t, got)
			}
			for must(t, b.stats.refresh(ctx)); b.stats.unread > 0; {
				must(t, b.stats.refresh(ctx))
			}
			if state := b.stats.states[streamEvents]; state.Msgs != 200 || int64(state.Bytes) < b.opts.Budgets.Events/4*3 {
				t.Fatalf("the stream has %d events of %d bytes", state.Msgs, state.Bytes)
			}
			_, err := b.PublishEvent(ctx, testRecord("more", "team", "app"))
			must(t, err)
			published := b.stats.unrouted.Load()
			unmute := muteReader(b, r.name)
			if err := b.stats.refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("refresh: %v", err)
			}
			unmute()
			if err := b.stats.checkEventsQuota(); err != nil {
				t.Errorf("what was read counts as unread: %v", err)
			}
			if now := b.stats.unrouted.Load(); published == 0 || now != published {
				t.Errorf("%d bytes were published since the last answer, %d are counted", published, now)
			}
		})
	}
}

// Both readers of EVENTS can make it refuse, so each has a gauge of its progress. Fails when one of them has no gauge, or has that of the
// other.
func TestEachReaderOfTheEventsShowsWhatItHasNotRead(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := open(t, t.TempDir(), func(o *Options) { o.Registerer = registry })
	publishEvents(t, b, "1", "2", "3")
	got := make(chan *event.Record)
	start(t, subscribeTo(b, got))
	for range 3 {
		receive(t, got)
	}
	unread := func() float64 { return testutil.ToFloat64(b.metrics.unread) }
	for must(t, b.stats.refresh(testContext(t))); unread() > 0; {
		must(t, b.stats.refresh(testContext(t)))
	}
	if n := testutil.ToFloat64(b.metrics.unrouted); n != 3 {
		t.Errorf("%v events are not routed, want 3", n)
	}
	if n, err := testutil.GatherAndCount(registry, "notifier_events_unread_by_receivers"); n != 1 || err != nil {
		t.Errorf("%d gauges, %v", n, err)
	}
}

// Fails when streams that do not answer are a line every two seconds for as long as NATS is away, or when their return is not logged.
func TestStreamsThatDoNotAnswerAreALineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newStats(&Bus{log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 150 { // five minutes
			s.tell(errors.New("away"))
			<-time.After(statsInterval)
		}
		s.tell(nil)
		s.tell(nil)
		if away := strings.Count(log.String(), "streams do not answer"); away != 5 {
			t.Errorf("%d lines in five minutes, want 5", away)
		}
		if back := strings.Count(log.String(), "streams answer again"); back != 1 {
			t.Errorf("%d lines about their return, want 1", back)
		}
		s.tell(errors.New("away again"))
		if !strings.Contains(log.String(), "away again") {
			t.Errorf("a second absence within a minute is not logged:\n%s", log.String())
		}
	})
}

// E2: the deliverer gives up what is beyond the quota. Fails when deliveries that were put to wait since the streams last answered count with
// their bytes and not with their number: the average would be that of all of them together, and a burst be given up though there is room.
func TestE2DeliveriesThatHaveJustBeenPutToWaitHaveTheirQuota(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Deliveries = mib })
	ctx := testContext(t)
	const burst, size = 150, 4 << 10 // more than half of the stream
	for _, id := range ids(burst) {
		d := testDelivery(id, "team", "slack")
		d.Event.Message = strings.Repeat("x", size)
		must(t, b.Reschedule(ctx, &d, time.Now().Add(time.Hour)))
	}
	during, _ := b.Quota()
	must(t, b.stats.refresh(ctx))
	after, _ := b.Quota()
	if after < minQuota || after > int(mib/size) || during < after*3/4 || during > after*4/3 {
		t.Errorf("the quota of %d deliveries is %d, and %d once the stream has answered", burst, during, after)
	}
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/event"
)

// T6 and E4: a namespace whose events take long to route delays no other, in however many batches the others arrive, and its own stay in
// order. Fails when one call is made at a time, when a heavy record shares a call with others, or when a record is handled before the call
// with its predecessor of the namespace has ended.
func TestT6OneNamespacesHeavyEventsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	publish := func(id, namespace string) {
		_, err := b.PublishEvent(ctx, testRecord(id, namespace, "app"))
		must(t, err)
	}
	heavy := func(r *event.Record) bool { return strings.HasPrefix(r.ID, "heavy") }
	var mu sync.Mutex
	busy, order := map[string]bool{}, map[string][]string{}
	held, entered, quick := make(chan struct{}), make(chan struct{}, 100), make(chan string, 1000)
	route := func(ctx context.Context, batch []*event.Record) error {
		mu.Lock()
		namespaces := map[string]bool{}
		for _, r := range batch {
			namespace := r.Event.InvolvedObject.Namespace
			if busy[namespace] {
				t.Errorf("%s goes beside another of its namespace", r.ID)
			}
			namespaces[namespace] = true
			order[namespace] = append(order[namespace], r.ID)
		}
		for namespace := range namespaces {
			busy[namespace] = true
		}
		mu.Unlock()
		if heavy(batch[0]) {
			if len(namespaces) > 1 {
				t.Errorf("%s goes with others", batch[0].ID)
			}
			entered <- struct{}{}
			select {
			case <-held:
			case <-ctx.Done():
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for namespace := range namespaces {
			delete(busy, namespace)
		}
		for _, r := range batch {
			quick <- r.ID
		}
		return ctx.Err()
	}
	publish("heavy-0", "many")
	start(t, func(ctx context.Context) error { return b.Events(ctx, handlerOf(heavy, route)) })
	receive(t, entered)
	var want []string
	var many []*event.Record
	for i := 1; i < 2*recordBatch; i++ {
		id := fmt.Sprintf("light-%d", i)
		if i%10 == 0 {
			id = fmt.Sprintf("heavy-%d", i)
		}
		many = append(many, testRecord(id, "many", "app"))
		want = append(want, id)
	}
	publishRecords(t, b, many...)
	for i := range 3 * recordBatch { // each of them would be in another batch if it waited
		id := fmt.Sprint("other-", i)
		publish(id, "other")
		if got := receive(t, quick); got != id {
			t.Fatalf("%s was routed, want %s", got, id)
		}
	}
	close(held)
	for range 2 * recordBatch {
		receive(t, quick)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(order["many"], " "); got != strings.Join(append([]string{"heavy-0"}, want...), " ") {
		t.Errorf("routed as %s", got)
	}
}

// Fails when the end of a term waits for events that no handler has: another replica would begin that much later.
func TestTheEndOfATermLeavesUnhandledEventsToTheNext(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	handling := make(chan struct{}, 1)
	stop := start(t, func(ctx context.Context) error {
		return b.Events(ctx, handlerOf(light, func(ctx context.Context, _ []*event.Record) error {
			handling <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}))
	})
	publishEvents(t, b, ids(3*recordBatch)...)
	receive(t, handling)
	began := time.Now()
	stop()
	if took := time.Since(began); took > closeTimeout/2 {
		t.Errorf("the term ended after %s", took)
	}
	events := newHeldEvents()
	start(t, events.read(b))
	if h := receive(t, events.handed); h.Seq != 1 {
		t.Errorf("%s is handed out first", describe(h))
	}
}

// Fails when the events of a call that failed as the term ended stay open: the end waits for them.
func TestACallThatFailsAtTheEndOfATermReturnsItsEvents(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // whether the end or the call is seen first is random
		c := &cursor{next: 1, done: map[uint64]struct{}{}, changed: make(chan struct{}, 1)}
		l := newPartitions(nil)
		l.finished <- &call{err: ctx.Err(), batch: []event.Message[*event.Record]{{Seq: 1, Acker: c.hand(1)}}}
		l.run(ctx, nil)
		l.leave(ctx)
		if _, _, open := c.counts(); open > 0 {
			t.Fatalf("%d events are open", open)
		}
	}
}

// T6. Fails when the share of a namespace does not shrink with the records, or with the bytes, that others leave, or when a namespace alone has
// less than an eighth of the whole.
func TestT6AShareIsAPartOfWhatOthersLeave(t *testing.T) {
	for name, tc := range map[string]struct{ size, alone, most int }{
		"small records": {1 << 10, maxOpen / 8, backlogRecords},
		"large records": {256 << 10, maxBufferedBytes / 8 / (256 << 10), backlogBytes / (256 << 10)},
	} {
		t.Run(name, func(t *testing.T) {
			l := newPartitions(&eventReader{consumer: &consumer{bus: &Bus{backlogged: newBacklogged()}}})
			const namespaces = 100
			for i := range namespaces {
				namespace := fmt.Sprint(i)
				for l.all[namespace] == nil || !l.all[namespace].full {
					l.count(namespace, 1, tc.size)
				}
				if waiting := l.all[namespace].waiting; i == 0 && waiting != tc.alone {
					t.Errorf("a namespace alone has %d, want %d", waiting, tc.alone)
				}
			}
			if most := tc.most + namespaces; l.waiting > most { // each may have one
				t.Errorf("%d wait, want %d at most", l.waiting, most)
			}
		})
	}
}

// T6. Fails when more namespaces with heavy records than are handled at a time are handled at once, or do not get their turns in the end.
func TestT6EveryHeavyNamespaceGetsItsTurn(t *testing.T) {
	t.Parallel()
	heavy := func(*event.Record) bool { return true }
	handled := make(chan string, 100)
	l := newPartitions(&eventReader{
		consumer: &consumer{bus: &Bus{backlogged: newBacklogged()}},
		handler: handlerOf(heavy, func(_ context.Context, batch []*event.Record) error {
			handled <- batch[0].Event.InvolvedObject.Namespace
			return nil
		}),
	})
	c := &cursor{next: 1, done: map[uint64]struct{}{}, changed: make(chan struct{}, 1)}
	var want []string
	for i := range 6 * maxAlone {
		want = append(want, fmt.Sprint("team-", i%(2*maxAlone)))
		seq := uint64(i + 1)
		l.add(event.Message[*event.Record]{Value: testRecord(fmt.Sprint(i), want[i], "app"), Seq: seq, Acker: c.hand(seq)})
	}
	var got []string
	l.begin(t.Context())
	for range want {
		if l.alone > maxAlone {
			t.Errorf("%d are handled at a time, want %d at most", l.alone, maxAlone)
		}
		got = append(got, receive(t, handled))
		l.end(receive(t, l.finished))
		l.begin(t.Context())
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// Fails when a replica whose term has ended refuses the events of a namespace that was backlogged, for good.
func TestTheEndOfATermForgetsItsBacklogs(t *testing.T) {
	b := &Bus{backlogged: newBacklogged()}
	l := newPartitions(&eventReader{consumer: &consumer{bus: b}})
	for l.all["many"] == nil || !l.all["many"].full {
		l.count("many", 1, 0)
	}
	if err := b.backlogged.await(t.Context(), "many"); !errors.Is(err, ErrFull) {
		t.Errorf("before: %v", err)
	}
	l.leave(t.Context())
	if err := b.backlogged.await(t.Context(), "many"); err != nil {
		t.Errorf("after: %v", err)
	}
}

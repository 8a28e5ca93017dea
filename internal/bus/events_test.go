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

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
)

// deadLetters returns everything in DEADLETTERS.
func deadLetters(t *testing.T, b *Bus) []*nats.Msg {
	t.Helper()
	ctx := testContext(t)
	info, err := b.streams[streamDeadLetters].Info(ctx)
	must(t, err)
	var out []*nats.Msg
	for seq := info.State.FirstSeq; seq > 0 && seq <= info.State.LastSeq; seq++ {
		raw, err := b.streams[streamDeadLetters].GetMsg(ctx, seq)
		must(t, err)
		out = append(out, &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data})
	}
	return out
}

// sendTo handles a batch by sending its records to the channel.
func sendTo(to chan<- *event.Record) func(ctx context.Context, batch []*event.Record) error {
	return func(ctx context.Context, batch []*event.Record) error {
		for _, r := range batch {
			select {
			case to <- r:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}

// routeTo routes every event by sending it to the channel.
func routeTo(b *Bus, to chan<- *event.Record) func(ctx context.Context) error {
	return func(ctx context.Context) error { return b.Events(ctx, handlerOf(light, sendTo(to))) }
}

func publishEvents(t testing.TB, b *Bus, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := b.PublishEvent(testContext(t), testRecord(id, "team", "app"))
		must(t, err)
	}
}

// publishOddities publishes to EVENTS a message that is no event, and then an event of another namespace than its subject's.
func publishOddities(t testing.TB, b *Bus) {
	t.Helper()
	foreign, _, err := encodeRecord(testRecord("foreign", "victim", "app"))
	must(t, err)
	foreign.Subject = objectSubject("attacker", "Kustomization", "app")
	for i, m := range []*nats.Msg{newMsg(prefixEvents+"a.b.c", []byte("no JSON")), foreign} {
		m.Header.Set(nats.MsgIdHdr, fmt.Sprint("odd", i))
		err := b.publish(testContext(t), streamEvents, m)
		must(t, err)
	}
}

func TestARecordArrivesAsItWasPublished(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	want := testRecord("id", "team", "my.app *>\r\n%41\"ü")
	want.Known, want.Labels = true, map[string]string{"a/b": "c\n<", "empty": ""}
	want.Event.Metadata = map[string]string{"kustomize.toolkit.fluxcd.io/revision": "main@sha1:1"}
	want.Event.Message = "<script>&\u2028"
	duplicate, err := b.PublishEvent(ctx, want)
	must(t, err)
	if duplicate || want.Seq != 1 {
		t.Fatalf("duplicate %v, sequence %d", duplicate, want.Seq)
	}
	again := *want
	again.Seq = 0
	if duplicate, err := b.PublishEvent(ctx, &again); err != nil || !duplicate || again.Seq != 1 {
		t.Errorf("second publish: duplicate %v, sequence %d, error %v", duplicate, again.Seq, err)
	}
	last, found, err := b.LastEvent(ctx, "team", "Kustomization", want.Event.InvolvedObject.Name)
	must(t, err)
	if !found {
		t.Fatal("no last event")
	}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("last event: %s", diff)
	}
	if _, found, err := b.LastEvent(ctx, "team", "Kustomization", "other"); found || err != nil {
		t.Errorf("last event of an object without: %v, %v", found, err)
	}
	got := make(chan *event.Record)
	start(t, routeTo(b, got))
	want.Recheck = true // it was in the stream
	if diff := cmp.Diff(want, receive(t, got)); diff != "" {
		t.Errorf("routed: %s", diff)
	}
}

// Fails when an ID counts as a duplicate of another namespace's, or for longer than the window.
func TestOnlyTheSameIDWithinTheWindowIsADuplicate(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.DuplicateWindow = 100 * time.Millisecond })
	ctx := testContext(t)
	publish := func(id string) bool {
		duplicate, err := b.PublishEvent(ctx, testRecord(id, "team", "app"))
		must(t, err)
		return duplicate
	}
	if publish("a") || publish("b") {
		t.Error("new IDs are duplicates")
	}
	deadline := time.Now().Add(testTimeout)
	for publish("a") {
		if time.Now().After(deadline) {
			t.Fatal("still a duplicate after the window")
		}
	}
}

// Invariants E2 and E4: a batch that fails is routed again, whole and before any younger record. Fails when handle returns the batch to the
// stream, or when a batch is acknowledged after an error.
func TestAFailedBatchIsRoutedAgainInOrder(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	publishEvents(t, b, ids(300)...)
	var got []string
	calls := 0
	all := make(chan struct{})
	stop := start(t, func(ctx context.Context) error {
		return b.Events(ctx, handlerOf(light, func(_ context.Context, batch []*event.Record) error {
			if calls++; calls%2 == 1 {
				for _, r := range batch {
					r.Recheck = false // all were in the stream; here only the failure is to mark them
				}
				return errors.New("no room")
			}
			for _, r := range batch {
				if !r.Recheck {
					t.Errorf("%s is not marked for a recheck", r.ID)
				}
				got = append(got, r.ID)
			}
			if len(got) == 300 {
				close(all)
			}
			return nil
		}))
	})
	receive(t, all)
	stop()
	if diff := cmp.Diff(ids(300), got); diff != "" {
		t.Error(diff)
	}
	// Acknowledged events are not routed by the next worker.
	publishEvents(t, b, "last")
	next := make(chan *event.Record)
	start(t, routeTo(b, next))
	if r := receive(t, next); r.ID != "last" {
		t.Errorf("the next owner got %s", r.ID)
	}
}

// Fails when decodeRecord does not compare the subject with the event (E1), or when an undecodable message is not acknowledged.
func TestAnUndecodableMessageBecomesADeadLetterAndBlocksNobody(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	publishOddities(t, b)
	publishEvents(t, b, "good")
	got := make(chan *event.Record)
	start(t, routeTo(b, got))
	if r := receive(t, got); r.ID != "good" {
		t.Errorf("routed %s", r.ID)
	}
	var labels []string
	for _, m := range deadLetters(t, b) {
		labels = append(labels, m.Subject+" "+header(m.Header, headerLabel)+" "+header(m.Header, headerReason))
	}
	want := []string{
		"notifier.dead.a.= undecodable body is not an event in JSON",
		"notifier.dead.attacker.= undecodable subject names another object than the event",
	}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(b.metrics.putAside.WithLabelValues(streamEvents)); n != 2 {
		t.Errorf("%v messages are counted, want 2", n)
	}
}

func TestEveryFollowerSeesTheHeadersOfEveryEventSinceItsTime(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	_, err := b.PublishEvent(ctx, testRecord("1", "team", "app"))
	must(t, err)
	first, second := make(chan *event.Record, 3), make(chan *event.Record, 3)
	for _, to := range []chan *event.Record{first, second} {
		start(t, following(b, time.Now().Add(-time.Hour), func(r *event.Record) { to <- r }, nil))
	}
	_, err = b.PublishEvent(ctx, testRecord("2", "team", "app"))
	must(t, err)
	for name, from := range map[string]chan *event.Record{"first": first, "second": second} {
		for i, id := range []string{"1", "2"} {
			want := testRecord(id, "team", "app")
			want.Seq = uint64(i + 1)
			got := *receive(t, from)
			want.Event.Message, want.Event.ReportingController = got.Event.Message, got.Event.ReportingController // records from memory have them
			if diff := cmp.Diff(want, &got); diff != "" {
				t.Errorf("%s follower: %s", name, diff)
			}
		}
	}
}

// stored returns the events accepted since from that are stored when it is called. It calls each after each event that it reads.
func stored(t testing.TB, b *Bus, from time.Time, each func()) (records []*event.Record) {
	t.Helper()
	ctx, caughtUp := context.WithCancel(testContext(t))
	defer caughtUp()
	b.FollowEvents(ctx, from, func(r *event.Record) {
		records = append(records, r)
		each()
	}, caughtUp)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatal("not caught up")
	}
	return records
}

// Fails when a follower has not read a stored event when it has caught up, or catches up only with those that are stored later.
func TestAFollowerHasCaughtUpWithTheLastStoredEvent(t *testing.T) {
	for name, change := range map[string]func(*Bus){"embedded": func(*Bus) {}, "remote": func(b *Bus) { b.embedded = nil }} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir(), nil)
			server := b.embedded
			change(b)
			defer func() { b.embedded = server }()
			for i, want := range [][]string{nil, {"1"}, {"1", "2"}} {
				later := sync.OnceFunc(func() { published(t, b, fmt.Sprint("later", i), "team", fmt.Sprint("later", i)) })
				var got []string
				for _, r := range stored(t, b, time.Now().Add(-time.Hour), later) {
					got = append(got, r.ID)
				}
				got = slices.DeleteFunc(got, func(id string) bool { return strings.HasPrefix(id, "later") })
				if !slices.Equal(got, want) {
					t.Errorf("read %v, want %v", got, want)
				}
				published(t, b, fmt.Sprint(i+1), "team", "app")
			}
			if got := stored(t, b, time.Now().Add(time.Hour), func() {}); len(got) > 0 {
				t.Errorf("%v were stored in the future", got)
			}
		})
	}
}

// Fails when an event of one namespace's subject can name another namespace's object to a reader of the headers.
func TestAReaderOfHeadersIsGivenNoObjectOfAnotherSubject(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	m, _, err := encodeRecord(testRecord("forged", "team", "app"))
	must(t, err)
	m.Subject = objectSubject("other", "Kustomization", "app")
	_, err = b.js.PublishMsg(ctx, m)
	must(t, err)
	if got := stored(t, b, time.Now().Add(-time.Hour), func() {}); len(got) > 0 {
		t.Errorf("got %+v", got[0].Event.InvolvedObject)
	}
}

// A watcher compares a POSTed failure with the object by the beginning of its message, also when the object has no labels. Fails when the
// headers lack that or the doubt, or when an object without labels counts as unknown.
func TestAFollowerSeesHowAPostedFailureBegins(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	record := testRecord("1", "team", "app")
	record.Outcome, record.Doubted, record.Labels = event.OutcomeFailed, true, map[string]string{}
	record.Event.Message = "é\n%" + strings.Repeat("x", event.MessageStart)
	record.Event.SetRevision("main@sha1:abc")
	_, err := b.PublishEvent(testContext(t), record)
	must(t, err)
	got := make(chan *event.Record, 1)
	start(t, following(b, time.Now().Add(-time.Hour), func(r *event.Record) { got <- r }, nil))
	r := receive(t, got)
	if r.Event.Message[:event.MessageStart] != record.Event.Message[:event.MessageStart] || !r.Doubted || r.Labels == nil || r.Event.Revision() != "main@sha1:abc" {
		t.Errorf("got %+v", r)
	}
}

// Invariant E2: a flood is refused, and does not push out unrouted events. Fails when PublishEvent does not call checkEventsQuota: the
// first events are then gone.
func TestAFloodIsRefusedBeforeItPushesOutWhatWasNotRouted(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Events = mib })
	flood(t, b)
	got := make(chan *event.Record)
	start(t, routeTo(b, got))
	if r := receive(t, got); r.ID != "0" {
		t.Errorf("the oldest event is %s", r.ID)
	}
}

// flood publishes events, the first with the ID "0", until they are refused.
func flood(t *testing.T, b *Bus) {
	t.Helper()
	ctx := testContext(t)
	for i := 0; ; i++ {
		r := testRecord(fmt.Sprint(i), "team", "app")
		r.Event.Message = string(make([]byte, 20<<10))
		_, err := b.PublishEvent(ctx, r)
		if errors.Is(err, ErrFull) {
			break
		}
		must(t, err)
		must(t, b.stats.refresh(ctx))
		if i > 1000 {
			t.Fatal("never full")
		}
	}
}

// E4: fails when the stream is not asked for the object's last event, or when another object's counts.
func TestE4AnEventIsNotPublishedAfterANewerOneOfItsObject(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	first := testRecord("first", "team", "app")
	_, err := b.PublishEventAfter(ctx, first, 0)
	must(t, err)
	_, err = b.PublishEvent(ctx, testRecord("other", "team", "other"))
	must(t, err)
	if _, err := b.PublishEventAfter(ctx, testRecord("stale", "team", "app"), 0); !errors.Is(err, event.ErrOvertaken) {
		t.Errorf("after none, though there is one: %v", err)
	}
	_, err = b.PublishEventAfter(ctx, testRecord("second", "team", "app"), first.Seq)
	must(t, err)
	if _, err := b.PublishEventAfter(ctx, testRecord("late", "team", "app"), first.Seq); !errors.Is(err, event.ErrOvertaken) {
		t.Errorf("after the first, though there is a second: %v", err)
	}
	last, _, err := b.LastEvent(ctx, "team", "Kustomization", "app")
	must(t, err)
	if last.ID != "second" {
		t.Errorf("the last event is %q", last.ID)
	}
}

// A round may have a transition that a POST of the object came before, and further POSTs of the object. Fails when these are refused with it.
func TestAnOvertakenEventFailsAlone(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	var msgs []*nats.Msg
	for _, id := range ids(3) {
		m, _, err := encodeRecord(testRecord(id, "team", "app"))
		must(t, err)
		msgs = append(msgs, m)
	}
	msgs[1].Header.Set(jetstream.ExpectedLastSubjSeqHeader, "0")
	out := b.publishAll(testContext(t), streamEvents, msgs)
	if out[0].err != nil || !errors.Is(out[1].err, event.ErrOvertaken) || out[2].err != nil {
		t.Errorf("got %v, %v, %v", out[0].err, out[1].err, out[2].err)
	}
}

// A cluster has a second code for a wrong last sequence. Fails when a publisher is not told that an event came first by either.
func TestBothCodesOfAWrongLastSequenceSayThatAnEventCameFirst(t *testing.T) {
	t.Parallel()
	for _, code := range []jetstream.ErrorCode{jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant} {
		if err := publishError(&jetstream.APIError{ErrorCode: code}); !errors.Is(err, event.ErrOvertaken) {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

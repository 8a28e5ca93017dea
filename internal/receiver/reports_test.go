package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// reportStore is a Reports that remembers.
type reportStore struct {
	mu     sync.Mutex
	values map[string]Deliveries
	puts   []string
	down   bool

	results map[string][][]view.Webhook // by Receiver, the results of each call
	full    bool
}

func (b *reportStore) Put(_ context.Context, key string, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errors.New("down")
	}
	var d Deliveries
	if err := json.Unmarshal(value, &d); err != nil {
		return err
	}
	if b.values == nil {
		b.values = map[string]Deliveries{}
	}
	b.values[key] = d
	b.puts = append(b.puts, key)
	return nil
}

func (b *reportStore) RecordWebhooks(_ context.Context, namespace, receiver string, ws []view.Webhook) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down || b.full {
		return errors.New("full")
	}
	if b.results == nil {
		b.results = map[string][][]view.Webhook{}
	}
	key := namespace + "/" + receiver
	b.results[key] = append(b.results[key], ws)
	return nil
}

// take returns the keys that were put since the last call.
func (b *reportStore) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	puts := b.puts
	b.puts = nil
	return puts
}

// last returns the last report about a Receiver.
func (b *reportStore) last(receiver string) Deliveries {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values[DeliveriesPrefix+receiver+"/r1"]
}

func (b *reportStore) set(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// reporting runs a Reporter over hooks in a synctest bubble.
func reporting(t *testing.T, hooks []*Hook, test func(r *redelivery, b *reportStore)) {
	synctest.Test(t, func(t *testing.T) {
		r, b := newRedelivery(t, unlimited(), hooks...), &reportStore{}
		reporter, err := NewReporter(ReporterOptions{
			Sources: []Source{r.table}, Reports: b, Records: b, Replica: "r1", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := reporter.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		elapse(time.Millisecond)
		test(r, b)
		stop()
		wg.Wait()
	})
}

// Fails when a report is written at every tick or for every webhook, when old news is reported again, and when a Receiver without webhooks
// is reported.
func TestOneReceiverIsReportedEveryFewSecondsWhileItHasNews(t *testing.T) {
	hook, quiet := newHook(t, "team-a/hook"), newHook(t, "team-b/hook")
	reporting(t, []*Hook{hook, quiet}, func(r *redelivery, b *reportStore) {
		elapse(time.Minute)
		if got := b.take(); got != nil {
			t.Errorf("without a webhook: %v", got)
		}
		for i := range 60 {
			r.send(hook, token, fmt.Sprint(i), "{}")
			elapse(time.Second)
		}
		elapse(reportGap)
		if got := b.take(); len(got) < 12 || len(got) > 14 || got[0] != "Deliveries/team-a/hook/r1" {
			t.Errorf("in a minute of webhooks: %d reports, %v", len(got), got)
		}
		if got := b.last("team-a/hook"); got.Accepted != 60 || got.Last.ID != "59" || got.UID != hook.UID {
			t.Errorf("the last says %+v", got)
		}
		elapse(time.Hour)
		if got := b.take(); got != nil {
			t.Errorf("after that: %v", got)
		}
	})
}

// Fails when a sender without the token causes a report every few seconds, when its refusals are never reported, and when they delay the
// report about an authentic webhook.
func TestRefusalsAloneAreReportedOnceAMinute(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		for range 600 {
			r.send(hook, "wrong", "1", "{}")
			elapse(time.Second)
		}
		if got := len(b.take()); got < 10 || got > 11 {
			t.Errorf("%d reports in ten minutes of refusals", got)
		}
		elapse(refusalGap + reportTick)
		if got := b.last("team-a/hook").Refused; got != 600 {
			t.Errorf("%d are told, want 600", got)
		}
		b.take()
		elapse(reportGap)
		r.send(hook, "wrong", "1", "{}")
		r.send(hook, token, "2", "{}")
		elapse(reportTick)
		if got := b.last("team-a/hook"); got.Accepted != 1 || got.Refused != 601 {
			t.Errorf("told is %+v", got)
		}
		elapse(refusalGap)
		r.send(hook, token, "3", "{}")
		elapse(reportTick)
		r.send(hook, "wrong", "4", "{}")
		elapse(reportGap + reportTick)
		if got := b.last("team-a/hook"); got.Accepted != 2 || got.Refused != 602 {
			t.Errorf("the first refusal in a minute is not told of soon: %+v", got)
		}
	})
}

// T6: fails when Receivers of one namespace take the turns of another.
func TestT6NamespacesTakeTurnsInBeingReported(t *testing.T) {
	t.Parallel()
	var flood []*Hook
	for i := range 240 {
		flood = append(flood, newHook(t, fmt.Sprintf("flood-%d/hook-%d", i%20, i)))
	}
	victim := newHook(t, "team-a/hook")
	reporting(t, append([]*Hook{victim}, flood...), func(r *redelivery, b *reportStore) {
		for i := range 24 {
			for _, h := range flood {
				r.send(h, token, "", "{}")
			}
			if i%10 == 0 {
				r.send(victim, token, "", "{}")
			}
			elapse(time.Second)
			if got := b.last("team-a/hook").Accepted; i%10 == 3 && got != int64(1+i/10) {
				t.Errorf("after %d s %d are told", i, got)
			}
		}
	})
}

// Fails without the bound over all Receivers, when some are never reported under it, and when an old state is reported.
func TestAFloodOverManyReceiversIsReportedAtABoundedRate(t *testing.T) {
	t.Parallel()
	const many = 200
	hooks := make([]*Hook, many)
	for i := range hooks {
		hooks[i] = newHook(t, fmt.Sprintf("team-a/hook-%d", i))
	}
	reporting(t, hooks, func(r *redelivery, b *reportStore) {
		const seconds = 30
		for range seconds {
			for _, h := range hooks {
				r.send(h, token, "", "{}")
			}
			elapse(time.Second)
		}
		if got := len(b.take()); got > seconds*reportsPerTick {
			t.Errorf("%d reports in %d s", got, seconds)
		}
		elapse(many / reportsPerTick * reportTick)
		elapse(reportGap)
		for _, h := range hooks {
			if got := b.last("team-a/" + h.Name).Accepted; got != seconds {
				t.Errorf("%s: %d are told, want %d", h.Name, got, seconds)
			}
		}
	})
}

// Fails when a report that failed is not repeated.
func TestAReportThatFailedIsRepeated(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		b.set(true)
		r.send(hook, token, "1", "{}")
		elapse(time.Minute)
		b.set(false)
		elapse(reportTick)
		if got := b.last("team-a/hook").Accepted; got != 1 {
			t.Errorf("%d are told, want 1", got)
		}
	})
}

// Fails when a quiet Receiver keeps its memory of webhooks.
func TestWebhooksTooOldToCountAsRepeatsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newHook(t, "team-a/hook")
		r := newRedelivery(t, unlimited(), hook)
		reporter, err := NewReporter(ReporterOptions{
			Sources: []Source{r.table}, Reports: &reportStore{}, Records: &reportStore{}, Replica: "r1", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.send(hook, token, "1", "{}")
		rt := r.table.first(hook.Path)
		if rt.owner.seen.seen == nil {
			t.Error("nothing is remembered")
		}
		elapse(rememberFor)
		reporter.look(time.Now())
		if rt.owner.seen.seen != nil {
			t.Errorf("remembered is %v", rt.owner.seen.seen)
		}
	})
}

// Fails when a Receiver that was deleted while it waited for its report is reported, or remembered.
func TestAReporterForgetsAReceiverThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newHook(t, "team-a/hook")
		r, b := newRedelivery(t, unlimited(), hook), &reportStore{}
		reporter, err := NewReporter(ReporterOptions{
			Sources: []Source{r.table}, Reports: b, Records: b, Replica: "r1", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.send(hook, token, "1", "{}")
		reporter.look(time.Now())
		if reporter.turns.Len() != 1 {
			t.Errorf("%d wait, want 1", reporter.turns.Len())
		}
		r.table.Delete("team-a/hook")
		reporter.look(time.Now())
		reporter.reportNext(t.Context())
		if got := b.take(); got != nil || reporter.turns.Len() != 0 {
			t.Errorf("reported are %v, %d wait", got, reporter.turns.Len())
		}
	})
}

// resting is a Source of this many Receivers without counts.
type resting int

func (n resting) Stats() iter.Seq2[string, *Stats] {
	return func(yield func(string, *Stats) bool) {
		s := NewStats("uid", time.Time{})
		for range n {
			if !yield("team/hook", s) {
				return
			}
		}
	}
}

// Fails when a look for news costs memory for Receivers without counts: with ten thousand it was 4 MB a second.
func TestAReporterCopiesNothingOfReceiversThatRest(t *testing.T) {
	reporter, err := NewReporter(ReporterOptions{
		Sources: []Source{resting(10_000)}, Reports: &reportStore{}, Records: &reportStore{}, Replica: "r1", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reporter.look(now)
		}
	})
	if bytes := r.AllocedBytesPerOp(); bytes > 64<<10 {
		t.Errorf("a look at 10,000 Receivers makes %d bytes of garbage", bytes)
	}
}

func TestAReporterNeedsAName(t *testing.T) {
	for _, name := range []string{"", "a/b"} {
		o := ReporterOptions{
			Sources: []Source{newTable(t, unlimited())}, Reports: &reportStore{}, Records: &reportStore{}, Replica: name,
			Log: slog.New(slog.DiscardHandler),
		}
		if _, err := NewReporter(o); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

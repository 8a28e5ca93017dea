package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
)

// told returns the recorded results of a Receiver, call by call, and removes them.
func (b *reportStore) told(receiver string) [][]view.Webhook {
	b.mu.Lock()
	defer b.mu.Unlock()
	told := b.results[receiver]
	delete(b.results, receiver)
	return told
}

func (b *reportStore) setFull(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = full
}

// Fails when a webhook is listed under another word, or without the targets that it triggered, or with others. Also fails when it has the
// ID of a sender that did not prove itself, and when an authentic webhook is not a single result.
func TestEachWebhookIsListedWithWhatBecameOfIt(t *testing.T) {
	hook := newHook(t, "team-a/hook", withEvents("push"), withTargets("app", "db"))
	hook.RateLimit = limit.Budget{Rate: 0.001, Burst: 3}
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		var want []view.Webhook
		lists := func(w view.Webhook) {
			w.Namespace, w.Receiver, w.Time, w.Count = "team-a", "hook", time.Now().UTC(), max(w.Count, 1)
			want = append(want, w)
			elapse(time.Millisecond)
		}
		as := func(kind, id string) {
			request := push(hook.Path, token, "{}")
			request.Header.Set("X-GitHub-Event", kind)
			request.Header.Set("X-GitHub-Delivery", id)
			do(r.handler, request)
		}
		both := []string{"GitRepository/app", "GitRepository/db"}
		r.send(hook, token, "1", "{}")
		lists(view.Webhook{ID: "1", Result: "accepted", Targets: both})
		r.send(hook, token, "1", "{}")
		lists(view.Webhook{ID: "1", Result: "duplicate", Targets: both})
		as("ping", "2")
		lists(view.Webhook{ID: "2", Result: "ping"})
		as("star", "3")
		lists(view.Webhook{ID: "3", Result: "event", Reason: "event not listed"})
		r.handler.triggers = triggersFunc(func(context.Context, event.Trigger) error { return errors.New("down") })
		r.send(hook, token, "4", "{}")
		lists(view.Webhook{ID: "4", Result: "unavailable", Reason: "not stored, try again"})
		r.handler.triggers = r.bus
		r.send(hook, token, "over", "{}")
		lists(view.Webhook{ID: "over", Result: "folded", Targets: both})
		hook.Suspended = true
		r.send(hook, token, "5", "{}")
		lists(view.Webhook{Result: "suspended", Reason: "receiver is suspended"})
		hook.Suspended = false
		r.send(hook, "wrong", "6", "{}")
		r.send(hook, "wrong", "7", "{}")
		lists(view.Webhook{Result: "unauthentic", Reason: "signature mismatch", Count: 2})
		elapse(reportTick)
		if diff := cmp.Diff([][]view.Webhook{want}, b.told("team-a/hook")); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
	})
}

// Fails when a target is listed that no filter selected, and when the reason of a failed filter is missing.
func TestTargetsChosenByFiltersAreListed(t *testing.T) {
	hook := newHook(t, "team-a/hook", withTargets("app", "db"))
	hook.Filter = &selection{triggers: hook.Targets[1:], failed: errors.New("resources[0].filter:\nno such key")}
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		r.send(hook, token, "1", "{}")
		at := time.Now().UTC()
		elapse(reportTick)
		want := view.Webhook{
			Namespace: "team-a", Receiver: "hook", Time: at, ID: "1", Result: "accepted", Reason: "resources[0].filter:?no such key",
			Targets: []string{"GitRepository/db"}, Count: 1,
		}
		if diff := cmp.Diff([][]view.Webhook{{want}}, b.told("team-a/hook")); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
	})
}

// T5: webhooks that are not authentic are written only with a report, of which there is one a minute. Fails when a refusal writes earlier
// or twice, when a refusal is not counted, and when a refusal has an ID or costs memory that grows.
func TestT5AFloodOfForgedWebhooksIsListedOnceAMinute(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		const sent = 6000
		for i := range sent {
			r.send(hook, "wrong", fmt.Sprint("forged-", i), "{}")
			elapse(100 * time.Millisecond)
		}
		elapse(refusalGap + reportTick)
		puts, told, counted := len(b.take()), b.told("team-a/hook"), int64(0)
		for _, call := range told {
			if len(call) != 1 || call[0].ID != "" || call[0].Result != "unauthentic" || call[0].Reason != "signature mismatch" {
				t.Errorf("listed are %+v", call)
			}
			counted += call[0].Count
		}
		// Recording results adds no reports.
		if puts > 11 || len(told) != puts {
			t.Errorf("a flood of ten minutes led to %d reports and %d writes of results, want 11 of each at most", puts, len(told))
		}
		if counted != sent {
			t.Errorf("%d are counted, want %d", counted, sent)
		}
	})
}

// Fails when a webhook is not counted, when more single results are listed than the bound, or others than the newest.
func TestOfAFloodTheNewestAreListedAndTheOthersCounted(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		const sent = 3*maxSingle + 5
		for i := range sent {
			r.send(hook, token, fmt.Sprint(i), "{}")
			elapse(time.Millisecond)
		}
		elapse(reportTick)
		told := b.told("team-a/hook")
		if len(told) != 1 || len(told[0]) != maxSingle+1 {
			t.Fatalf("listed are %+v", told)
		}
		others := told[0][0]
		if others.Count != sent-maxSingle || others.Result != "accepted" || others.ID != "" {
			t.Errorf("the others are %+v", others)
		}
		for i, w := range told[0][1:] {
			if want := fmt.Sprint(sent - maxSingle + i); w.ID != want || w.Count != 1 {
				t.Errorf("listed is %s in the place of %s", w.ID, want)
			}
		}
	})
}

// Fails when results that could not be recorded are lost, when another try writes more reports, and when reports wait for results.
func TestResultsThatCouldNotBeRecordedAreRecordedLater(t *testing.T) {
	first, other := newHook(t, "team-a/hook"), newHook(t, "team-b/hook")
	reporting(t, []*Hook{first, other}, func(r *redelivery, b *reportStore) {
		b.setFull(true)
		r.send(first, token, "1", "{}")
		r.send(other, token, "2", "{}")
		elapse(10 * time.Minute)
		if got := b.take(); len(got) != 2 {
			t.Errorf("reports are %v", got)
		}
		r.send(first, token, "3", "{}")
		b.setFull(false)
		elapse(refusalGap + reportTick)
		var got []string
		for _, w := range append(b.told("team-a/hook"), b.told("team-b/hook")...) {
			for _, w := range w {
				got = append(got, w.ID)
			}
		}
		if diff := cmp.Diff([]string{"1", "3", "2"}, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		elapse(time.Hour)
		if b.take(); b.told("team-a/hook") != nil {
			t.Error("results are recorded again")
		}
	})
}

// Fails when webhooks right before the end are not reported.
func TestTheEndTellsOfWhatCameInBefore(t *testing.T) {
	hook := newHook(t, "team-a/hook")
	var store *reportStore
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		store = b
		elapse(2 * reportTick)
		r.send(hook, token, "1", "{}")
	})
	if told := store.told("team-a/hook"); len(told) != 1 || store.last("team-a/hook").Accepted != 1 {
		t.Errorf("told is %+v", told)
	}
}

// Fails when restored results are lost, or are not in the order of arrival.
func TestResultsThatAreTakenBackKeepTheirOrder(t *testing.T) {
	stats := NewStats("u", time.Unix(0, 0))
	count := func(from, to int) {
		for i := from; i < to; i++ {
			stats.Count(hookAccepted, Received{ID: fmt.Sprint(i), Proved: true}, time.Unix(int64(i), 0))
			stats.Count(hookTooLarge, Received{ID: "forged"}, time.Unix(int64(i), 0))
		}
	}
	count(0, maxSingle+5)
	taken := stats.take()
	count(maxSingle+5, maxSingle+10)
	stats.restore(taken)
	got := stats.take().view("team-a", "hook")
	if stats.take() != nil {
		t.Error("results are returned twice")
	}
	counts := map[string]int64{}
	next := 10
	for _, w := range got {
		counts[w.Result] += w.Count
		if w.ID != "" {
			if w.ID != fmt.Sprint(next) {
				t.Errorf("listed is %s in the place of %d", w.ID, next)
			}
			next++
		}
	}
	if diff := cmp.Diff(map[string]int64{"accepted": maxSingle + 10, "too_large": maxSingle + 10}, counts); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// T6: fails when the memory for a Receiver's results grows with its webhooks, or is kept after they were reported.
func TestT6ResultsTakeALittleMemoryOfABusyReceiverAndNoneOfAQuietOne(t *testing.T) {
	const receivers = 200
	all := make([]*Stats, receivers)
	for i := range all {
		all[i] = NewStats("u", time.Unix(0, 0))
	}
	targets := TargetNames(newHook(t, "team-a/hook").Targets)
	before := heap()
	for i := range 50 * maxSingle {
		for _, stats := range all {
			stats.Count(hookAccepted, Received{ID: strings.Repeat("x", 300), Proved: true, Targets: targets}, time.Unix(int64(i), 0))
			stats.Count(answer.Refused(http.StatusBadRequest, "payload", strings.Repeat("x", 10), ""), Received{ID: "x"}, time.Unix(int64(i), 0))
		}
	}
	if each := (heap() - before) / receivers; each > 8<<10 {
		t.Errorf("a busy Receiver takes %d bytes", each)
	}
	for _, stats := range all {
		stats.take()
	}
	if each := (heap() - before) / receivers; each > 512 {
		t.Errorf("a quiet Receiver takes %d bytes", each)
	}
	runtime.KeepAlive(all)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Fails when a target has the name of another, is named twice, with unprintable bytes, or without a bound.
func TestTargetsAreNamedForTheirOwner(t *testing.T) {
	targets := func(ts ...event.Target) (triggers []event.Trigger) {
		for _, target := range ts {
			triggers = append(triggers, event.Trigger{Target: target})
		}
		return triggers
	}
	selector := event.Target{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"b": "2", "a": "1"}}
	app := event.Target{Kind: "GitRepository", Name: "app"}
	got := TargetNames(targets(app, selector, app, event.Target{Kind: "Bucket", Name: "*"}, event.Target{Kind: "K", Name: "a\nb"}))
	want := []string{"GitRepository/app", "Kustomization with a=1,b=2", "Bucket/*", "K/a?b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
	var many []event.Target
	for i := range 1000 {
		many = append(many, event.Target{Kind: "GitRepository", Name: fmt.Sprint(strings.Repeat("x", 40), i)})
	}
	many = append(many, event.Target{Kind: "K", Name: strings.Repeat("x", 4000)})
	names := TargetNames(targets(many...))
	if n := len(strings.Join(names, "")); len(names) < 5 || n > maxShownTargets {
		t.Errorf("%d names of %d bytes", len(names), n)
	}
	if long := TargetNames(targets(many[1000])); len(long) != 1 || len(long[0]) != maxShownTarget {
		t.Errorf("a long one is %q", long)
	}
}

// hangingRecords is a Records that does not answer.
type hangingRecords struct{}

func (hangingRecords) RecordWebhooks(ctx context.Context, _, _ string, _ []view.Webhook) error {
	<-ctx.Done()
	return ctx.Err()
}

// T3: fails when a webhook waits while results are recorded.
func TestNoWebhookWaitsForResultsToBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newHook(t, "team-a/hook")
		r := newRedelivery(t, unlimited(), hook)
		reporter, err := NewReporter(ReporterOptions{
			Sources: []Source{r.table}, Reports: &reportStore{}, Records: hangingRecords{}, Replica: "r1", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.send(hook, token, "1", "{}")
		var wg sync.WaitGroup
		reporter.look(time.Now())
		wg.Go(func() { reporter.reportNext(t.Context()) })
		synctest.Wait()
		begin := time.Now()
		r.expect(hook, "2", "{}", saysAccepted, 1)
		if took := time.Since(begin); took != 0 {
			t.Errorf("answered after %s", took)
		}
		wg.Wait()
		if took := time.Since(begin); took != reportTime {
			t.Errorf("the record was waited for for %s, want %s", took, reportTime)
		}
	})
}

// T5: Bitbucket's test of the connection is not signed, so anybody who has seen the path can send it. Fails when it is a write of its own,
// when it is shown as the last webhook or as one with the previous token, when it has no bound, and when it is told of a suspension.
func TestT5AnUnsignedPingProvesNothing(t *testing.T) {
	hook := newHook(t, "team-a/hook", withType(t, "bitbucket"))
	hook.Suspended, hook.Previous = true, true
	reporting(t, []*Hook{hook}, func(r *redelivery, b *reportStore) {
		ping := func() int {
			request := httptest.NewRequest(http.MethodPost, hook.Path, http.NoBody)
			request.Header.Set("X-Event-Key", "diagnostics:ping")
			return do(r.handler, request).StatusCode
		}
		for range 600 {
			if got := ping(); got != http.StatusOK {
				t.Fatalf("answered %d", got)
			}
			elapse(time.Second)
		}
		elapse(refusalGap + reportTick)
		if puts := len(b.take()); puts > 11 {
			t.Errorf("%d reports in ten minutes, want 11 at most", puts)
		}
		if d := b.last("team-a/hook"); d.UID == "" || d.Accepted != 0 || !d.Last.Time.IsZero() || !d.LastError.Time.IsZero() || !d.PreviousToken.IsZero() {
			t.Errorf("reported is %+v", d)
		}
		counted := int64(0)
		for _, call := range b.told("team-a/hook") {
			if len(call) != 1 || call[0].Result != "ping" {
				t.Errorf("listed are %+v", call)
			}
			counted += call[0].Count
		}
		if counted != 600 {
			t.Errorf("%d are counted", counted)
		}
	})
	table := newTable(t, DefaultLimits(), hook)
	w, answers := newWebhooks(t, table, &recorder{}), map[int]bool{}
	for range 100 {
		request := httptest.NewRequest(http.MethodPost, hook.Path, http.NoBody)
		request.Header.Set("X-Event-Key", "diagnostics:ping")
		answers[do(w, request).StatusCode] = true
	}
	if !answers[http.StatusTooManyRequests] {
		t.Errorf("a flood is answered %v", answers)
	}
}

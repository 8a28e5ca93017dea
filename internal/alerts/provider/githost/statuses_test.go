package githost

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// fakeHost keeps the statuses of all commits in the order they were set.
type fakeHost struct {
	set   []Status
	times []time.Time
	now   time.Time
	fail  error
	asked int
	// closed is the error of each look-up, nil for none.
	closed error
}

func (f *fakeHost) LastStatus(_ context.Context, s Status) (Last, error) {
	f.asked++
	if f.closed != nil {
		return Last{}, f.closed
	}
	for i, known := range slices.Backward(f.set) {
		if known.Commit == s.Commit && known.Name == s.Name {
			return Last{State: known.State, Description: known.Description, Set: f.times[i]}, nil
		}
	}
	return Last{}, nil
}

func (f *fakeHost) SetStatus(_ context.Context, s Status) error {
	if f.fail != nil {
		return f.fail
	}
	f.set, f.times = append(f.set, s), append(f.times, f.now)
	return nil
}

func (f *fakeHost) states() string {
	var b strings.Builder
	for _, s := range f.set {
		b.WriteString(s.State)
	}
	return b.String()
}

var results, all = Form{Succeeded: "S", Failed: "F"}, Form{Succeeded: "S", Failed: "F", Pending: "P"}

func newStatuses(t *testing.T, host StatusHost, form Form) *Statuses {
	t.Helper()
	cfg := provider.Config{Address: "https://git.test/o/r", UID: "0c9c2e41-x"}
	client, err := provider.NewClient(cfg, provider.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return NewStatuses(cfg, client, host, form)
}

func at(n provider.Notification, after time.Duration) provider.Notification {
	n.Event.Timestamp = noon.Add(after)
	return n
}

func replayed(n provider.Notification) provider.Notification {
	n.Replayed = true
	return n
}

var (
	good = apps("info", "ReconciliationSucceeded")
	bad  = apps("error", "HealthCheckFailed")
)

func TestAStatusIsSetOnceAndAgainWhenItChanges(t *testing.T) {
	host := &fakeHost{}
	s := newStatuses(t, host, results)
	for _, n := range []provider.Notification{bad, bad, good, good, bad, apps("info", "Progressing")} {
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if host.states() != "FSF" {
		t.Errorf("got %s, want FSF", host.states())
	}
	if err := newStatuses(t, host, all).Send(t.Context(), apps("info", "Progressing")); err != nil || host.states() != "FSFP" {
		t.Errorf("got %s, %v, want FSFP", host.states(), err)
	}
}

// Fails when a replayed notification replaces the status of a newer one, which this process or an earlier one set.
func TestALateFailureIsNotSetOverANewerSuccess(t *testing.T) {
	host := &fakeHost{now: noon.Add(time.Hour)}
	s := newStatuses(t, host, results)
	for _, sender := range []*Statuses{s, s, newStatuses(t, host, results)} {
		if err := sender.Send(t.Context(), at(good, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := sender.Send(t.Context(), replayed(at(bad, 0))); err != nil {
			t.Fatal(err)
		}
	}
	if err := newStatuses(t, host, results).Send(t.Context(), replayed(at(bad, 0))); err != nil || host.states() != "S" {
		t.Errorf("got %s, %v, want S", host.states(), err)
	}
	if err := s.Send(t.Context(), at(bad, 2*time.Minute)); err != nil || host.states() != "SF" {
		t.Errorf("a newer failure: got %s, %v, want SF", host.states(), err)
	}
}

// Fails when the time at which the host took a replayed failure counts against the success that followed the failure.
func TestReplayedStatusesKeepTheirOrder(t *testing.T) {
	host := &fakeHost{now: noon.Add(time.Hour)}
	s := newStatuses(t, host, results)
	for _, n := range []provider.Notification{replayed(at(bad, 0)), replayed(at(good, time.Minute))} {
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if host.states() != "FS" {
		t.Errorf("got %s, want FS", host.states())
	}
}

// Fails when an event's own claim of a future time keeps out the events after it.
func TestATimeInTheFutureHoldsNothingBack(t *testing.T) {
	var l latest
	s := Status{Commit: commit, Name: "n"}
	l.note(at(good, 1000*time.Hour), s.key(), digest{}, noon)
	if l.overtaken(s.key(), noon.Add(time.Second), time.Time{}) {
		t.Error("overtaken by the future")
	}
	for i := range 2 * maxLatest {
		l.note(at(good, 0), latestKey{name: strconv.Itoa(i)}, digest{}, noon)
	}
	if n := l.statuses.Len(); n != maxLatest {
		t.Errorf("%d statuses are known, want %d at most", n, maxLatest)
	}
}

// Fails when the memory for the set statuses grows with the length of names from an expression.
func TestT6LongNamesOfStatusesAreNotKept(t *testing.T) {
	s := newStatuses(t, &fakeHost{}, results)
	s.expr = func(context.Context, provider.Notification) (string, error) { return strings.Repeat("é", 1<<20), nil }
	if err := s.Send(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	for _, key := range s.latest.statuses.Keys() {
		if len(key.name) > 4*maxStatusName {
			t.Errorf("a name of %d bytes is kept", len(key.name))
		}
	}
}

func TestAFailureOfTheHostIsThatOfTheSend(t *testing.T) {
	host := &fakeHost{fail: event.NewError(event.Retry, provider.LabelServer, "HTTP 500", nil)}
	if err := newStatuses(t, host, results).Send(t.Context(), bad); event.AsError(err).Label != provider.LabelServer {
		t.Errorf("got %v", err)
	}
	n := providertest.Notifications(t)["error"]
	if err := newStatuses(t, host, results).Send(t.Context(), n); event.AsError(err).Class != event.Permanent {
		t.Errorf("no commit: %v", err)
	}
}

// Fails when the update of a status, which comes at every interval, costs a request although the host has that status; or when a status is
// taken for the host's for ever, or over a break in which another process may have set one.
func TestAStatusThatTheHostHasIsNeedlessForAWhile(t *testing.T) {
	now := noon
	host := &fakeHost{}
	s := newStatuses(t, host, results)
	s.now = func() time.Time { return now }
	for i := range 12 {
		if n := at(good, now.Sub(noon)); s.Needless(n) != (i%6 > 0) {
			t.Errorf("after %v: needless is %t", now.Sub(noon), s.Needless(n))
		} else if i%6 == 0 {
			send(t, s, n)
		}
		now = now.Add(time.Hour)
	}
	send(t, s, good)
	after := good
	after.Since = noon
	for name, n := range map[string]provider.Notification{
		"a failure": bad, "a replayed one": replayed(good), "one after a break": after,
	} {
		if s.Needless(n) {
			t.Errorf("%s is needless", name)
		}
	}
	if host.states() != "S" || host.asked != 3 {
		t.Errorf("got %s by %d requests, want S by 3", host.states(), host.asked)
	}
}

// Fails when a success is needless after a failure that may have been set, though its answer was lost.
func TestNoStatusIsNeedlessAfterADoubtfulOne(t *testing.T) {
	host := &fakeHost{}
	s := newStatuses(t, host, results)
	send(t, s, good)
	host.fail = event.NewError(event.Retry, provider.LabelTimeout, "no answer in time", nil)
	if err := s.Send(t.Context(), bad); err == nil || s.Needless(good) {
		t.Errorf("got %v, needless %t", err, s.Needless(good))
	}
}

// Fails when a success is needless after a failure that was given up. The failure is sent after all when the host takes requests again, and
// would then stand for an object that has recovered.
func TestNoStatusIsNeedlessAfterAFailureThatWasGivenUp(t *testing.T) {
	host := &fakeHost{}
	s := newStatuses(t, host, results)
	send(t, s, at(good, 0))
	host.closed = event.NewError(event.Permanent, provider.LabelClient, "HTTP 401", nil)
	if err := s.Send(t.Context(), at(bad, time.Minute)); err == nil {
		t.Fatal("the failure was sent")
	}
	host.closed = nil
	recovered := at(good, 2*time.Minute)
	if s.Needless(recovered) {
		t.Error("the success is needless")
	} else {
		send(t, s, recovered)
	}
	if send(t, s, replayed(at(bad, time.Minute))); host.states() != "S" {
		t.Errorf("got %s, want S", host.states())
	}
}

// Fails when a status whose name an expression gives is dropped by the default name.
func TestNoStatusWithANameByAnExpressionIsNeedless(t *testing.T) {
	s := newStatuses(t, &fakeHost{}, results)
	s.expr = func(context.Context, provider.Notification) (string, error) { return "prod", nil }
	if send(t, s, good); s.Needless(good) {
		t.Error("needless")
	}
}

func send(t *testing.T, s *Statuses, n provider.Notification) {
	t.Helper()
	if err := s.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

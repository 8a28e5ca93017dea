package event_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// Fails when note keeps only the newest attempts, keeps all, or changes the attempts of a copy of the delivery.
func TestOfManyAttemptsTheFirstAndTheLastAreKept(t *testing.T) {
	const all = 50
	began := time.Date(2026, 3, 1, 10, 0, 0, 0, time.FixedZone("", 3600))
	var d, early event.Delivery
	for i := range all {
		failure := event.NewError(event.Retry, "timeout", "no answer", nil)
		d.Failed(began.Add(time.Duration(i)*time.Minute), time.Duration(i)*time.Millisecond, failure, began)
		if i == event.MaxTries-1 {
			early = d
		}
	}
	var got []int64
	for _, a := range d.Tries {
		got = append(got, a.Millis)
	}
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, a := range early.Tries {
		if a.Millis != int64(i) {
			t.Fatalf("a copy has attempt %d in place of %d: %v", a.Millis, i, early.Tries)
		}
	}
	if first := d.Tries[0]; first.Time.Location() != time.UTC || first.Next.Location() != time.UTC {
		t.Errorf("not in UTC: %+v", first)
	}
}

// Fails when the accepted attempt is not counted, is left out after failures, or loses its duration.
func TestTheAttemptThatWasAcceptedEndsTheTries(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	refusal := event.NewError(event.Retry, "http_5xx", "HTTP 503", nil)
	refusal.Status = 503
	d := event.Delivery{Attempts: 1}
	d.Failed(at, time.Second, refusal, at.Add(time.Minute))
	d.Succeeded(at.Add(time.Minute), 70*time.Millisecond)
	want := []event.Attempt{
		{Time: at, Millis: 1000, Class: "http_5xx", Status: 503, Failure: "HTTP 503", Next: at.Add(time.Minute)},
		{Time: at.Add(time.Minute), Millis: 70, Class: event.ClassSent},
	}
	if diff := cmp.Diff(want, d.Tries); diff != "" || d.Attempts != 2 || d.Took != 70*time.Millisecond {
		t.Errorf("%d attempts, took %v, %s", d.Attempts, d.Took, diff)
	}
}

// Fails when a delivery that is accepted at once allocates a list for its one attempt.
func TestADeliveryThatIsAcceptedAtOnceAllocatesNothing(t *testing.T) {
	var d event.Delivery
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { d.Succeeded(now, time.Millisecond) }); n != 0 || d.Tries != nil {
		t.Errorf("%v allocations, tries %v", n, d.Tries)
	}
}

// Fails when an error that is classified anew, such as a proxy's, loses the status of the answer.
func TestTheStatusOfAnAnswerOutlivesANewClassification(t *testing.T) {
	refusal := event.NewError(event.Permanent, "http_4xx", "HTTP 404", nil)
	refusal.Status = 404
	if e := event.NewError(event.Retry, "proxy", "proxy: HTTP 404", errors.Join(errors.New("x"), refusal)); e.Status != 404 {
		t.Errorf("status %d", e.Status)
	}
	if e := event.NewError(event.Retry, "connect", "refused", errors.New("x")); e.Status != 0 {
		t.Errorf("status %d of no answer", e.Status)
	}
}

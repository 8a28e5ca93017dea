package provider

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/event"
)

// told is a Recoveries with a destination that counts what it is sent.
type told struct {
	Recoveries
	sent int
	err  error
}

// gets reports whether the destination is sent a notification.
func (r *told) gets(t *testing.T, n Notification) bool {
	t.Helper()
	before := r.sent
	needless := r.Needless(n)
	if err := r.Send(n, func() error { r.sent++; return r.err }); err != nil && !errors.Is(err, r.err) {
		t.Fatal(err)
	}
	sent := r.sent > before
	if sent == needless {
		t.Errorf("sent %v, though needless is %v", sent, needless)
	}
	return sent
}

func ofObject(uid, severity, reason string, update bool) Notification {
	n := Notification{Event: event.Event{Severity: severity, Reason: reason, InvolvedObject: event.ObjectReference{UID: uid}}}
	if update {
		n.Event.Metadata = map[string]string{CommitStatusKey: "update"}
	}
	return n
}

func failureOf(uid string) Notification {
	return ofObject(uid, event.SeverityError, "HealthCheckFailed", false)
}

func closingOf(uid string) Notification {
	return ofObject(uid, event.SeverityInfo, "ReconciliationSucceeded", true)
}

// Fails when a Kustomization's success is sent at every interval, when the first after a failure or after the start is not, or when a
// success that people read is left out.
func TestARecoveryThatOnlyClosesIsSentOnceAfterAFailure(t *testing.T) {
	var r told
	for i, step := range []struct {
		n    Notification
		sent bool
	}{
		{closingOf("a"), true}, // nothing is known
		{closingOf("a"), false},
		{closingOf("b"), true},
		{ofObject("a", event.SeverityInfo, "ReconciliationSucceeded", false), true},
		{closingOf("a"), false},
		{failureOf("a"), true},
		{failureOf("a"), true},
		{ofObject("a", event.SeverityInfo, "Progressing", false), true},
		{closingOf("a"), true},
		{closingOf("a"), false},
		{closingOf("b"), false},
		{failureOf("a"), true},
		{ofObject("a", event.SeverityInfo, "ReconciliationSucceeded", false), true},
		{closingOf("a"), false},
	} {
		if got := r.gets(t, step.n); got != step.sent {
			t.Errorf("step %d: sent %v", i, got)
		}
	}
}

// Fails when a failure whose answer was lost is not closed, or a closing that was refused is not sent again.
func TestAFailedSendLeavesTheObjectOpen(t *testing.T) {
	var r told
	r.gets(t, closingOf("a"))
	r.err = errors.New("no answer")
	r.gets(t, failureOf("a"))
	for range 2 {
		if !r.gets(t, closingOf("a")) {
			t.Error("not sent, though the failure may have arrived")
		}
	}
	r.err = nil
	if !r.gets(t, closingOf("a")) || r.gets(t, closingOf("a")) {
		t.Error("the closing that arrived is not the last")
	}
}

// Fails when the recovery by one Alert leaves open what another Alert opened, whose alerts at an Alertmanager have other labels.
func TestEachAlertClosesWhatAFailureOpened(t *testing.T) {
	var r told
	by := func(n Notification, alert string) Notification {
		n.AlertUID = alert
		return n
	}
	for range 2 {
		r.gets(t, by(failureOf("a"), "x"))
		for _, alert := range []string{"x", "y"} {
			if !r.gets(t, by(closingOf("a"), alert)) || r.gets(t, by(closingOf("a"), alert)) {
				t.Errorf("Alert %s does not close once", alert)
			}
		}
	}
	for i := range maxClosings + 1 {
		r.gets(t, by(closingOf("a"), fmt.Sprint(i)))
	}
	if n := len(r.get(closingOf("a")).closed); n != maxClosings {
		t.Errorf("%d Alerts are remembered", n)
	}
}

// Fails when a process that delivers again, after another one did, trusts what it knew: the other may have sent a failure.
func TestWhatWasClosedBeforeABreakIsClosedOnceMore(t *testing.T) {
	var r told
	first, second := closingOf("a"), closingOf("a")
	second.Since = time.Unix(1, 0)
	if !r.gets(t, first) || r.gets(t, first) || !r.gets(t, second) || r.gets(t, second) {
		t.Error("not once before and once after the break")
	}
}

// Fails when a failure that is sent while a recovery is under way counts as closed by it.
func TestAFailureDuringARecoveryIsClosedByTheNext(t *testing.T) {
	for _, known := range []bool{false, true} {
		var r told
		if known {
			r.gets(t, closingOf("a"))
			r.gets(t, failureOf("a"))
		}
		if err := r.Send(closingOf("a"), func() error { r.gets(t, failureOf("a")); return nil }); err != nil {
			t.Fatal(err)
		}
		if !r.gets(t, closingOf("a")) {
			t.Errorf("the failure stays open, known %v", known)
		}
	}
}

// Fails when the number of remembered objects has no bound.
func TestFewRecoveriesAreRemembered(t *testing.T) {
	var r told
	for i := range maxRecoveries + 10 {
		r.gets(t, closingOf(fmt.Sprint(i)))
	}
	if n := r.objects.Len(); n != maxRecoveries {
		t.Errorf("%d objects are remembered", n)
	}
	if !r.gets(t, closingOf("0")) {
		t.Error("the recovery of a forgotten object is not sent")
	}
}

package githost

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const commit = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"

// apps returns a notification about a Kustomization at a commit.
func apps(severity, reason string) provider.Notification {
	return provider.Notification{Event: event.Event{
		InvolvedObject: event.ObjectReference{Kind: "Kustomization", Namespace: "team-a", Name: "apps"},
		Severity:       severity, Reason: reason, Metadata: map[string]string{"revision": "main@sha1:" + commit, "commit": commit},
	}}
}

func TestWorkUnderWayIsPendingAndNoResult(t *testing.T) {
	for _, row := range []struct {
		severity, reason string
		want             string
	}{
		{"info", "ReconciliationSucceeded", "S"},
		{"info", "", "S"},
		{"error", "HealthCheckFailed", "F"},
		{"error", "DependencyNotReady", "F"},
		{"info", "Progressing", "P"},
		{"error", "Progressing", "P"},
		{"info", "DependencyNotReady", "P"},
		{"info", "ProgressingWithRetry", "P"},
	} {
		n := apps(row.severity, row.reason)
		if got := all.stateOf(n); got != row.want {
			t.Errorf("%s %s: got state %s, want %s", row.severity, row.reason, got, row.want)
		}
		if !TakesStatuses(n) || TakesResults(n) != (row.want != "P") {
			t.Errorf("%s %s: statuses %t, results %t", row.severity, row.reason, TakesStatuses(n), TakesResults(n))
		}
	}
	if n := apps("trace", "Checked"); TakesStatuses(n) || TakesResults(n) {
		t.Error("a trace is taken for a result")
	}
}

// Fails when a host that has no hashes of SHA-256 is asked for one, or when another commit is refused.
func TestACommitThatTheHostCannotHaveIsNone(t *testing.T) {
	for _, row := range []struct {
		commit string
		limit  int
		sent   bool
	}{
		{commit, provider.SHA1Digits, true},
		{strings.Repeat("c", 64), provider.SHA1Digits, false},
		{strings.Repeat("c", 64), 0, true},
	} {
		n := apps("error", "HealthCheckFailed")
		n.Event.Metadata["commit"] = row.commit
		s, err := (&Statuses{form: Form{Commit: row.limit}}).statusOf(t.Context(), n)
		if sent := err == nil && s.Commit == row.commit; sent != row.sent {
			t.Errorf("%s at a host with %d digits: %+v, %v", row.commit, row.limit, s, err)
		}
	}
}

func TestTheDefaultNameTellsObjectsAndClustersApart(t *testing.T) {
	o := apps("info", "").Event.InvolvedObject
	if got := defaultName("0C9C2E41-d2f9-4f9b-9c41-bebc1984d67a", o); got != "kustomization/apps/0c9c2e41" {
		t.Error(got)
	}
}

func TestTheNameIsThatOfTheExpression(t *testing.T) {
	named := func(text string, err error) *Statuses {
		return &Statuses{form: results, expr: func(context.Context, provider.Notification) (string, error) { return text, err }}
	}
	n := apps("error", "HealthCheckFailed")
	n.Event.Metadata["summary"] = "of\u200Bprod\n"
	s, err := named(" Prod/Apps\n", nil).statusOf(t.Context(), n)
	want := Status{
		Commit: commit, Name: "Prod/Apps", Description: "health check failed", State: "F", Object: "kustomization/apps", Summary: "of prod",
	}
	if err != nil || s != want {
		t.Errorf("got %+v, %v; want %+v", s, err, want)
	}
	for _, text := range []string{"", " ", "\u200B"} {
		if _, err := named(text, nil).statusOf(t.Context(), apps("error", "")); event.AsError(err).Class != event.Permanent {
			t.Errorf("%q: %v", text, err)
		}
	}
	refused := event.NewError(event.Permanent, provider.LabelPayload, "no such key", nil)
	if _, err := named("", refused).statusOf(t.Context(), apps("error", "")); err != refused { //nolint:errorlint // as it is
		t.Errorf("got %v", err)
	}
}

func TestAnEventWithoutACommitIsRefusedForGood(t *testing.T) {
	n := apps("error", "HealthCheckFailed")
	n.Event.Metadata = map[string]string{"revision": "1.2.3"}
	if _, err := new(Statuses).statusOf(t.Context(), n); event.AsError(err).Class != event.Permanent {
		t.Errorf("got %v", err)
	}
}

func TestAReasonIsDescribedInWords(t *testing.T) {
	for reason, want := range map[string]string{
		"ReconciliationSucceeded": "reconciliation succeeded", "HTTPError": "http error", "Sha256Sum": "sha 256 sum", "OK": "ok",
		"a": "a", "": "", "<b>": "< b >", "two Words": "two words", "ÄtzendÖde": "ätzend öde", "A\r\nB\u202e": "a b", "\xff": "\uFFFD",
	} {
		if got := describe(reason, 140); got != want {
			t.Errorf("%q: got %q, want %q", reason, got, want)
		}
	}
	for _, r := range []string{"x", "Ab", "😀", "\xff", "A1"} {
		if got := describe(strings.Repeat(r, 10_000), 140); utf8.RuneCountInString(got) > 140 || !utf8.ValidString(got) {
			t.Errorf("%q: %d characters", r, utf8.RuneCountInString(got))
		}
	}
}

// Fails when two long names that differ at their ends become the same.
func TestALongNameStaysItsOwn(t *testing.T) {
	long := strings.Repeat("ä", 300)
	a, b := Shorten(long+"1", 255), Shorten(long+"2", 255)
	if utf8.RuneCountInString(a) != 255 || a == b {
		t.Errorf("%q and %q", a, b)
	}
	if Shorten("short", 255) != "short" || Shorten(long, 0) != long {
		t.Error("a name within the limit is changed")
	}
}

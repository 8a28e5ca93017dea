package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
)

// reportAll reports the changed Receivers, and returns whether all reports were stored.
func (b *refusals) reportAll(ctx context.Context) bool {
	stored := true
	for n := range maps.Clone(b.changed) {
		stored = b.report(ctx, n) == nil && stored
	}
	return stored
}

// T6: the reports of all namespaces share a bucket of 64 MiB, or less on a small disk. Fails when a report has all refusals however long
// they are, or none.
func TestT6AReportOfRefusalsIsSmall(t *testing.T) {
	reports := &fakeReports{values: map[string][]byte{}}
	b := newRefusals(reports, nil, slog.New(slog.DiscardHandler))
	long := func(n int) string { return strings.Repeat("a", n) }
	for i := range maxDenied {
		b.deny(Receiver{Namespace: "team", Name: "long", UID: "u"}, Denied{
			ServiceAccount: long(253), Resource: long(200), Kind: "GitRepository", Object: long(240) + fmt.Sprint(i), Message: long(maxReason),
		})
		b.deny(Receiver{Namespace: "team", Name: "short", UID: "u"}, Denied{
			ServiceAccount: "sa", Resource: "gitrepositories", Kind: "GitRepository", Object: fmt.Sprint("app-", i), Message: "no",
		})
	}
	if !b.reportAll(t.Context()) {
		t.Fatal("not reported")
	}
	for receiver, want := range map[string]int{"long": 3, "short": maxDenied} {
		var h Health
		value := reports.get(healthPrefix + "team/" + receiver)
		if err := json.Unmarshal(value, &h); err != nil {
			t.Fatal(err)
		}
		if len(value) > maxReport || len(h.Denied) < want {
			t.Errorf("%s: %d bytes with %d refusals, want at least %d in %d bytes", receiver, len(value), len(h.Denied), want, maxReport)
		}
	}
	if n := len(b.entries["team"]["long"].health.Denied); n != maxDenied {
		t.Errorf("%d refusals are remembered", n)
	}
}

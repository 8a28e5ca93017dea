package receiver

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Fails when a webhook to an awaited Receiver is answered like one for an unknown path, when it is charged for, or counts as one during a start,
// which raises an alarm. Also fails when a path is awaited after its Receiver is served, is gone, or is awaited elsewhere.
func TestAnAwaitedReceiverIsNotUnknown(t *testing.T) {
	limits := unlimited()
	limits.Unknown.Rate, limits.Unknown.Burst = 0.001, 1
	one, two := newHook(t, "team-a/one"), newHook(t, "team-a/two")
	table := newTable(t, limits)
	w := newWebhooks(t, table, &recorder{})
	want := func(status int, path string) {
		t.Helper()
		if got := do(w, push(path, token, "{}")).StatusCode; got != status {
			t.Errorf("answered %d, want %d", got, status)
		}
	}
	table.Await("team-a/one", one.Path, Path("former", "one", "team-a"))
	table.Await("team-a/two", two.Path)
	for range 3 {
		want(http.StatusServiceUnavailable, one.Path)
	}
	of := w.metrics.webhooks[noType]
	if busy, starting := testutil.ToFloat64(of["busy"]), testutil.ToFloat64(of["starting"]); busy != 3 || starting != 0 {
		t.Errorf("%v count as busy, %v as starting", busy, starting)
	}
	if err := table.Put("team-a/one", one); err != nil {
		t.Fatal(err)
	}
	want(http.StatusOK, one.Path)
	want(http.StatusServiceUnavailable, two.Path)
	want(http.StatusNotFound, Path("former", "one", "team-a"))
	table.Delete("team-a/one")
	want(http.StatusTooManyRequests, one.Path) // unknown again, and charged for
	table.Await("team-a/two", Path("next", "two", "team-a"))
	want(http.StatusTooManyRequests, two.Path)
	want(http.StatusServiceUnavailable, Path("next", "two", "team-a"))
	table.Delete("team-a/two")
	want(http.StatusTooManyRequests, Path("next", "two", "team-a"))
}

// Fails when a Receiver's path is no longer awaited because another Receiver, whose status names it, is served, gone or awaited elsewhere; or when
// such a status has a path awaited that is no webhook's.
func TestAnAwaitedPathIsThatOfEachReceiverThatNamesIt(t *testing.T) {
	path, other := Path("t", "one", "team-a"), Path("t", "other", "team-b")
	for name, end := range map[string]func(*Table){
		"gone": func(table *Table) { table.Delete("team-b/two") }, "elsewhere": func(table *Table) { table.Await("team-b/two", other) },
		"again": func(table *Table) { table.Await("team-b/two", path) },
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, unlimited())
			w := newWebhooks(t, table, &recorder{})
			want := func(status int, path string) {
				t.Helper()
				if got := do(w, push(path, token, "{}")).StatusCode; got != status {
					t.Errorf("answered %d, want %d", got, status)
				}
			}
			table.Await("team-a/one", path)
			table.Await("team-b/two", path, "/", "")
			want(http.StatusNotFound, "/")
			end(table)
			want(http.StatusServiceUnavailable, path)
			table.Delete("team-a/one")
			table.Delete("team-b/two")
			want(http.StatusNotFound, path)
			want(http.StatusNotFound, other)
		})
	}
}

package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// countLines returns the lines of a log in JSON by namespace, and how many others they say were left out.
func countLines(t *testing.T, log io.Reader) (written map[string]int, left int) {
	t.Helper()
	written = map[string]int{}
	for lines := json.NewDecoder(log); ; {
		var line struct {
			Namespace string
			Left      int `json:"lines_left_out"`
		}
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return written, left
		case err != nil:
			t.Fatal(err)
		}
		written[line.Namespace]++
		left += line.Left
	}
}

// T6: the triggers of a namespace's many targets end together. Fails when each has a line in the log, when the lines of one namespace leave no
// others, or when the omitted lines are not counted.
func TestT6TheLinesAboutANamespacesTriggersAreBounded(t *testing.T) {
	named := func(i int) event.Target { return repo(fmt.Sprint("app-", i)) }
	for name, c := range map[string]struct {
		target func(i int) event.Target
		code   int
	}{
		"without an object": {func(i int) event.Target { return selecting("team", fmt.Sprint(i)) }, http.StatusOK},
		"requested":         {named, http.StatusOK},
		"refused":           {named, http.StatusForbidden},
		"failed":            {named, http.StatusInternalServerError},
		"not found":         {named, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const triggers = fair.LineBurst + 1000
				log := &bytes.Buffer{}
				w := newWorld(t, func(o *Options) {
					o.Log, o.QPS, o.Burst = slog.New(slog.NewJSONHandler(log, nil)), 1e6, 1e6
				})
				defer w.stop()
				w.api.respond(always(c.code))
				var targets []event.Target
				for i := range triggers {
					targets = append(targets, c.target(i))
				}
				r := w.receiver("team-a", "github", "deployer", targets...)
				for _, target := range targets {
					w.send(trigger(r, target))
				}
				pass(100 * time.Millisecond)
				w.hook(w.receiver("team-b", "github", "deployer", c.target(0)))
				pass(100 * time.Millisecond)
				written, left := countLines(t, log)
				if n := written["team-a"]; n == 0 || n > fair.LineBurst+fair.LineRate {
					t.Errorf("%d lines about %d triggers, want %d at most", n, triggers, fair.LineBurst)
				}
				if written["team-b"] != 1 {
					t.Errorf("%d lines about another namespace's trigger, want 1", written["team-b"])
				}
				if all := written["team-a"] + left; all != triggers {
					t.Errorf("%d lines are written or counted, want %d", all, triggers)
				}
			})
		})
	}
}

// T6: the reports about a namespace's many Receivers cannot be stored. Fails when each has a line in the log, again with every try.
func TestT6TheLinesAboutReportsThatFailAreBounded(t *testing.T) {
	log := &bytes.Buffer{}
	b := newRefusals(slog.New(slog.NewJSONHandler(log, nil)))
	for i := range 100 {
		r := Receiver{Namespace: "team-a", Name: fmt.Sprint("r-", i), UID: fmt.Sprint(i), ServiceAccount: "deployer"}
		b.deny(r, Denied{ServiceAccount: "deployer", Kind: "GitRepository", Object: "app"})
	}
	if b.flush(t.Context(), &fakeReports{fail: true}) || len(b.changed) != 100 {
		t.Errorf("%d reports are tried again, want 100", len(b.changed))
	}
	if n := bytes.Count(log.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("%d lines about 100 reports, want 1", n)
	}
}

package apply

import (
	"bytes"
	"context"
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

// T6: the reports about a namespace's many Receivers cannot be stored. Fails when each has a line in the log, again with every try, and when
// a report is not tried again.
func TestT6TheLinesAboutReportsThatFailAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, reports := &bytes.Buffer{}, &fakeReports{fail: true}
		b := newRefusals(reports, nil, slog.New(slog.NewJSONHandler(log, nil)))
		for i := range 100 {
			r := Receiver{Namespace: "team-a", Name: fmt.Sprint("r-", i), UID: fmt.Sprint(i), ServiceAccount: "deployer"}
			b.deny(r, Denied{ServiceAccount: "deployer", Kind: "GitRepository", Object: "app"})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		b.run(ctx)
		if len(b.changed) != 100 || reports.puts < 400 {
			t.Errorf("%d reports are tried again, %d tries; want 100 and some 500", len(b.changed), reports.puts)
		}
		if n := bytes.Count(log.Bytes(), []byte("\n")); n != 1 {
			t.Errorf("%d lines about 100 reports, want 1", n)
		}
	})
}

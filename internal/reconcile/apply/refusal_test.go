package apply

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// gaps are the times between requests, in whole seconds.
func gaps(patches []patch) []int {
	var seconds []int
	for i := 1; i < len(patches); i++ {
		seconds = append(seconds, int(patches[i].at.Sub(patches[i-1].at).Round(time.Second).Seconds()))
	}
	return seconds
}

// T4: a refused request is retried from 5 s to 1 min apart for 10 minutes, and shown. Fails when a refusal ends the trigger, when its
// pauses differ, and when it is retried for ever.
func TestT4ARefusalIsTriedForTenMinutesAndShown(t *testing.T) {
	for code, reason := range map[int]string{http.StatusForbidden: v1.ForbiddenReason, http.StatusUnprocessableEntity: ""} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.respond(always(code))
				r := w.receiver("team-a", "github", "weak", repo("app"))
				h := w.hook(r)
				pass(time.Second)
				got := w.health("team-a/github")
				if len(got.Denied) == 1 {
					got.Denied[0].Since = time.Time{}
				}
				want := Health{UID: r.UID, Denied: []Denied{{
					ServiceAccount: "weak", Resource: "gitrepositories.source.toolkit.fluxcd.io", Kind: "GitRepository",
					Object: "app", Reason: reason, Message: "system:serviceaccount:team-a:weak: cannot patch app",
				}}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("shown after the first refusal (-want +got):\n%s", diff)
				}
				pass(20 * time.Minute)
				w.want(h, "done")
				if diff := cmp.Diff([]int{5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60, 60}, gaps(w.api.seen())); diff != "" {
					t.Errorf("pauses (-want +got):\n%s", diff)
				}
				if w.reports.puts != 1 {
					t.Errorf("reported %d times, although nothing changed", w.reports.puts)
				}
				if len(w.health("team-a/github").Denied) != 1 {
					t.Error("no longer shown although it never succeeded")
				}
			})
		})
	}
}

// Fails when allow does nothing, or when a newer trigger does not restart the pauses.
func TestARefusalIsClearedByTheNextSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.respond(always(http.StatusForbidden))
		r := w.receiver("team-a", "github", "weak", repo("app"))
		first := w.hook(r)
		pass(2 * time.Minute)
		w.api.respond(nil) // the tenant's RBAC arrives
		second := w.hook(r)
		pass(2 * time.Second)
		w.want(first, "done")
		w.want(second, "done")
		if got := w.health("team-a/github"); len(got.Denied) != 0 {
			t.Errorf("still shown: %+v", got)
		}
		w.applier.refusals.mu.Lock()
		defer w.applier.refusals.mu.Unlock()
		if len(w.applier.refusals.entries) != 0 {
			t.Error("the refusals hold a Receiver that is well")
		}
	})
}

// Fails when the refusals do not read the reports of others.
func TestANewOwnerClearsWhatTheOldOneReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.api.respond(always(http.StatusForbidden))
		r := w.receiver("team-a", "github", "weak", repo("app"))
		h := w.hook(r)
		pass(time.Second)
		w.stop()
		w.want(h, "returned")

		next := newWorld(t, func(o *Options) { o.Reports = w.reports })
		defer next.stop()
		next.receivers.put(r)
		next.hook(r)
		pass(2 * time.Second)
		if got := w.health("team-a/github"); len(got.Denied) != 0 {
			t.Errorf("still shown: %+v", got)
		}
	})
}

// Fails when a failed report is dropped.
func TestReportsOutlastTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.reports.fail = true
		w.api.respond(always(http.StatusForbidden))
		w.hook(w.receiver("team-a", "github", "weak", repo("app")))
		pass(10 * time.Second)
		w.reports.mu.Lock()
		w.reports.fail = false
		w.reports.mu.Unlock()
		pass(2 * time.Second)
		if got := w.health("team-a/github"); len(got.Denied) != 1 {
			t.Errorf("reported %+v", got)
		}
	})
}

func TestTheAnswersOfTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		code       int
		retryAfter string
		after      time.Duration // the time of the check
		want       string
		gaps       []int
	}{
		"404 ends at once":                            {http.StatusNotFound, "", time.Minute, "done", nil},
		"409 is tried after the interval":             {http.StatusConflict, "", 4500 * time.Millisecond, "held", []int{1, 1, 1, 1}},
		"500 is tried with growing pauses":            {http.StatusInternalServerError, "", 20 * time.Second, "held", []int{1, 2, 4, 8}},
		"401 is tried with growing pauses":            {http.StatusUnauthorized, "", 20 * time.Second, "held", []int{1, 2, 4, 8}},
		"429 without a hint grows as well":            {http.StatusTooManyRequests, "", 20 * time.Second, "held", []int{1, 2, 4, 8}},
		"405 is a refusal":                            {http.StatusMethodNotAllowed, "", 40 * time.Second, "held", []int{5, 10, 20}},
		"400 is a refusal":                            {http.StatusBadRequest, "", 40 * time.Second, "held", []int{5, 10, 20}},
		"503 is tried until an hour later and beyond": {http.StatusServiceUnavailable, "", time.Hour, "held", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.respond(always(c.code))
				h := w.hook(w.receiver("team-a", "github", "deployer", repo("app")))
				pass(c.after)
				w.want(h, c.want)
				if diff := cmp.Diff(c.gaps, gaps(w.api.seen())); c.gaps != nil && diff != "" {
					t.Errorf("pauses (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Fails when client-go's own retries are left on, and when an excessive Retry-After is followed.
func TestRetryAfterIsHonouredAndClamped(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		want   []int
	}{
		"seconds":  {"17", []int{17, 17, 17}},
		"for ever": {"86400", []int{60, 60, 60}},
		"negative": {"-5", []int{1, 2, 4, 8, 16, 32, 60}},
		"nonsense": {"soon", []int{1, 2, 4, 8, 16, 32, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.respond(func(patch) (int, http.Header) {
					return http.StatusTooManyRequests, http.Header{"Retry-After": {c.header}}
				})
				w.hook(w.receiver("team-a", "github", "deployer", repo("app")))
				pass(5 * time.Minute)
				if diff := cmp.Diff(c.want, gaps(w.api.seen())[:len(c.want)]); diff != "" {
					t.Errorf("pauses (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Fails when resolve compares no UID, or when a Receiver made after the webhook may replace the missing Receiver.
func TestATriggerEndsWithItsReceiver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, Receiver)
		wrote  bool
	}{
		"the Receiver is gone":        {func(w *world, r Receiver) { w.receivers.remove(r.Namespace, r.Name) }, false},
		"the Receiver was made again": {func(w *world, r Receiver) { r.UID, r.Created = "other", time.Now(); w.receivers.put(r) }, false},
		"the target was taken out":    {func(w *world, r Receiver) { r.Targets = []event.Target{repo("other")}; w.receivers.put(r) }, false},
		"the namespace was made again": {func(w *world, r Receiver) {
			r.UID, r.Created = "other", time.Now().Add(-time.Second/2)
			w.receivers.put(r)
		}, false},
		"another asked for the same as it": {func(w *world, r Receiver) {
			w.receivers.remove(r.Namespace, r.Name)
			w.receiver("team-a", "twin", "deployer", r.Targets...)
		}, true},
		"another asked as someone else": {func(w *world, r Receiver) {
			w.receivers.remove(r.Namespace, r.Name)
			w.receiver("team-a", "twin", "other", r.Targets...)
		}, false},
		"the version of its target moved": {func(w *world, r Receiver) {
			r.Targets[0].APIVersion = "source.toolkit.fluxcd.io/v1"
			w.receivers.put(r)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				target := repo("app")
				target.APIVersion = "source.toolkit.fluxcd.io/v1beta2"
				if !strings.Contains(name, "version") {
					target = repo("app")
				}
				r := w.receiver("team-a", "github", "deployer", target)
				sent := trigger(r, target)
				c.change(w, r)
				h := w.send(sent)
				pass(5 * time.Second)
				w.want(h, "done")
				if got := len(w.api.seen()) > 0; got != c.wrote {
					t.Errorf("written: %v", w.api.seen())
				}
			})
		})
	}
}

// Fails when the identity is read when the trigger is taken in rather than when it is written.
func TestT2TheServiceAccountIsReadAtTheTimeOfTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.respond(always(http.StatusForbidden))
		r := w.receiver("team-a", "github", "weak", repo("app"))
		h := w.hook(r)
		pass(time.Second)
		r.ServiceAccount = "strong"
		w.receivers.put(r)
		w.api.respond(nil)
		pass(time.Minute)
		w.want(h, "done")
		got := w.api.seen()
		if last := got[len(got)-1].user; last != "system:serviceaccount:team-a:strong" {
			t.Errorf("written as %s", last)
		}
		if d := w.health("team-a/github").Denied; len(d) != 0 {
			t.Errorf("still shown: %+v", d)
		}
	})
}

// Fails when the API server's words, which an admission webhook of the tenant may have chosen, are shown as they are.
func TestARefusalIsShownAsOneShortLine(t *testing.T) {
	message, r := "a\nb\tc\x00"+strings.Repeat("é", 1000), Receiver{Namespace: "team-a", Name: "github", UID: "u"}
	for how, record := range map[string]func(*refusals){
		"of a write":  func(b *refusals) { b.deny(r, Denied{Message: message}) },
		"of a review": func(b *refusals) { b.reviewed(r, []Denied{{Message: message}}, nil) },
	} {
		b := newRefusals(nil, nil, nil)
		record(b)
		got := b.entries["team-a"]["github"].health.Denied[0].Message
		if strings.ContainsAny(got, "\n\t\x00") || len(got) > maxReason || !strings.HasPrefix(got, "a b c é") {
			t.Errorf("%s: got %d bytes: %q", how, len(got), got[:20])
		}
	}
}

// Fails when deny has no bound.
func TestRefusalsOfOneReceiverAreBounded(t *testing.T) {
	b := newRefusals(nil, nil, nil)
	r := Receiver{Namespace: "team-a", Name: "github", UID: "u"}
	for i := range 100 {
		b.deny(r, Denied{Object: strings.Repeat("a", i+1)})
	}
	if n := len(b.entries["team-a"]["github"].health.Denied); n != maxDenied {
		t.Errorf("%d refusals", n)
	}
}

// Fails when resolved removes too few or too many denials: only those of targets and accounts that the Receiver no longer names.
func TestRefusalsOfFormerTargetsAreNoLongerShown(t *testing.T) {
	denied := func(account, object string) Denied {
		return Denied{ServiceAccount: account, Kind: "GitRepository", Object: object}
	}
	for name, c := range map[string]struct {
		denied Denied
		target event.Target
		stays  bool
	}{
		"still asked for":            {denied("weak", "app"), repo("app"), true},
		"another target is resolved": {denied("weak", "app"), repo("other"), true},
		"as an account of before":    {denied("old", "app"), repo("app"), false},
		"a target of before":         {denied("weak", "gone"), repo("app"), false},
		"the selector is resolved":   {denied("weak", "*"), selecting("a", "b"), false},
		"found by the selector":      {denied("weak", "found"), selecting("a", "b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRefusals(nil, nil, slog.New(slog.DiscardHandler))
			r := Receiver{Namespace: "team-a", Name: "github", UID: "u", ServiceAccount: "weak", Targets: []event.Target{repo("app")}}
			if c.target.Selects() {
				r.Targets = append(r.Targets, c.target)
			}
			b.deny(r, c.denied)
			b.resolved(r, c.target)
			if stays := len(b.entries["team-a"]["github"].health.Denied) == 1; stays != c.stays {
				t.Errorf("stays: %v", stays)
			}
		})
	}
}

// Fails when the write of one Receiver removes from another the denial of an apiVersion that the cluster does not serve: the denial would
// come back with each review, as an Event, and go with each webhook.
func TestAWriteProvesNothingAboutAnotherReceiversVersion(t *testing.T) {
	b := newRefusals(nil, nil, slog.New(slog.DiscardHandler))
	for _, name := range []string{"right", "wrong"} {
		b.deny(Receiver{Namespace: "team-a", Name: name, UID: "u"}, Denied{
			ServiceAccount: "deployer", Resource: "GitRepository", Kind: "GitRepository", Object: "app",
			Reason: v1.KindNotFoundReason, Reviewed: true,
		})
	}
	b.allow("team-a", "deployer", map[string]bool{"right": true}, "gitrepositories.source.toolkit.fluxcd.io",
		object{group: "source.toolkit.fluxcd.io", kind: "GitRepository", name: "app"})
	if n := len(b.entries["team-a"]["right"].health.Denied); n != 0 {
		t.Errorf("the Receiver that wrote is shown %d denials", n)
	}
	if n := len(b.entries["team-a"]["wrong"].health.Denied); n != 1 {
		t.Errorf("the other Receiver is shown %d denials, want 1", n)
	}
}

// T4: fails when the ten minutes of a refusal begin with the webhook, or with a refusal before an outage of the API server. After a longer outage
// the first refusal would be the last, such as that of an API server that has not read its Roles, or its definitions, yet.
func TestT4ARefusalAfterALongOutageIsTriedAgain(t *testing.T) {
	for name, target := range map[string]event.Target{"of a write": repo("app"), "of a kind": anyGroup("Widget", "app")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.api.respond(always(http.StatusForbidden))
				h := w.hook(w.receiver("team-a", "github", "deployer", target))
				pass(time.Minute)
				w.api.discover(func(context.Context) error { return errors.New("the API server is away") })
				w.api.respond(always(http.StatusServiceUnavailable))
				pass(15 * time.Minute)
				w.api.discover(nil)
				w.api.respond(always(http.StatusForbidden))
				pass(2 * time.Minute)
				w.want(h, "held")
				if denied := w.health("team-a/github").Denied; len(denied) != 1 {
					t.Errorf("denied: %+v", denied)
				}
				w.api.respond(nil)
				w.api.add(group("a.example", serves("v1", "Widget")))
				pass(3 * time.Minute)
				w.want(h, "done")
				if denied := w.health("team-a/github").Denied; len(denied) != 0 {
					t.Errorf("still denied: %+v", denied)
				}
			})
		})
	}
}

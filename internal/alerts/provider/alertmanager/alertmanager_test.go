package alertmanager

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// config returns the Config for an Alertmanager at address, with a token.
func config(address string) provider.Config {
	return provider.Config{Type: "alertmanager", Address: address + "/api/v2/alerts", Token: "t", Network: providertest.Loopback()}
}

func newSender(t *testing.T, cfg provider.Config) *Sender {
	t.Helper()
	s := providertest.NewSender(t, New, cfg)
	s.now = func() time.Time { return time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC) }
	return s
}

// serve returns an Alertmanager and the function that sends to it.
func serve(t *testing.T) (*vendor, *providertest.Sink, func(provider.Notification)) {
	t.Helper()
	v := newVendor()
	sink := providertest.NewSink(t, v.ServeHTTP)
	return v, sink, func(n provider.Notification) {
		t.Helper()
		if err := newSender(t, config(sink.URL)).Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "alertmanager"}, Serve: newVendor().ServeHTTP, Requests: 2, Reads: true,
	})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) { newVendor().ServeHTTP(w, r) })
	providertest.Golden(t, "alertmanager", newSender(t, config(sink.URL)), sink)
}

// Fails when a recovery posts its own labels instead of those of the firing alerts, or needs a state of the process.
func TestARecoveryResolvesTheFailuresAlert(t *testing.T) {
	v := newVendor()
	sink := providertest.NewSink(t, v.ServeHTTP)
	providertest.Incidents(t, func() provider.Sender { return newSender(t, config(sink.URL)) }, v.events)
}

// failure returns a failure of the kit's object at a revision.
func failure(t *testing.T, revision string) provider.Notification {
	t.Helper()
	n := providertest.Notifications(t)["error"]
	n.Event.Metadata = map[string]string{"revision": revision}
	return n
}

// Fails when an alert ends 24 hours after the event instead of after the send: one that is sent again by hand days later, or that waited as
// long for its destination, would be over at once. Without any time Alertmanager ends an alert after five minutes.
func TestALateFailureFiresForADay(t *testing.T) {
	for name, at := range map[string]time.Time{"three days late": time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), "no time": {}} {
		v, sink, _ := serve(t)
		s := newSender(t, config(sink.URL))
		n := failure(t, "1")
		n.Event.Timestamp = at
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v.now = s.now().Add(24*time.Hour - time.Second)
		if diff := cmp.Diff([]string{"1"}, v.firing()); diff != "" {
			t.Errorf("%s: firing (-want +got):\n%s", name, diff)
		}
	}
}

// Fails when the alerts of earlier revisions accumulate while an object keeps failing.
func TestAFailureOfANewRevisionEndsThatOfTheOld(t *testing.T) {
	v, _, send := serve(t)
	for _, revision := range []string{"1", "2", "3", "3"} {
		send(failure(t, revision))
	}
	if diff := cmp.Diff([]string{"3"}, v.firing()); diff != "" {
		t.Errorf("firing (-want +got):\n%s", diff)
	}
}

// Fails when the look-up's answer is not compared with the object, or its matchers leave out a label that distinguishes two clusters.
func TestOnlyAlertsOfTheObjectAreEnded(t *testing.T) {
	for name, change := range map[string]func(*provider.Notification){
		"another object":     func(n *provider.Notification) { n.Event.InvolvedObject.Name = `a"pps\` },
		"another namespace":  func(n *provider.Notification) { n.Event.InvolvedObject.Namespace = "team-b" },
		"another kind":       func(n *provider.Notification) { n.Event.InvolvedObject.Kind = "HelmRelease" },
		"another controller": func(n *provider.Notification) { n.Event.ReportingController = "" },
		"another cluster":    func(n *provider.Notification) { n.Event.Metadata["cluster"] = "other" },
	} {
		for _, filters := range []bool{true, false} {
			v := newVendor()
			sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
				if !filters { // like a proxy that drops the query
					r.URL.RawQuery = ""
				}
				v.ServeHTTP(w, r)
			})
			s := newSender(t, config(sink.URL))
			open, other := failure(t, "1"), providertest.Notifications(t)["info"]
			open.Event.Metadata["cluster"], open.Authored = "mine", []string{"cluster"}
			other.Event.Metadata, other.Authored = map[string]string{"cluster": "mine"}, open.Authored
			change(&other)
			for _, n := range []provider.Notification{open, other} {
				if err := s.Send(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"1"}, v.firing()); diff != "" {
				t.Errorf("%s, filters %t: firing (-want +got):\n%s", name, filters, diff)
			}
		}
	}
}

// Fails when an object whose fields have special characters of matchers and labels is never found again.
func TestAnObjectWithOddNamesRecovers(t *testing.T) {
	v, _, send := serve(t)
	n := failure(t, "1")
	n.Event.InvolvedObject.Name, n.Event.ReportingController = "a\\\"b\n=~,{}", "\x01 ä"
	n.Event.Metadata["9 lives/of-a.cat"], n.Authored = `"\`, []string{"9 lives/of-a.cat"}
	send(n)
	n.Event.Severity, n.Event.Reason = "info", "ReconciliationSucceeded"
	send(n)
	if diff := cmp.Diff([]string{"opened", "closed"}, v.events()); diff != "" {
		t.Error(diff)
	}
}

// of returns a notification of an Alert, whose author wrote the label team unless it is empty, some minutes after the kit's failure.
func of(t *testing.T, severity, alert, team, revision string, minutes int) provider.Notification {
	t.Helper()
	n := failure(t, revision)
	n.AlertUID, n.Event.Severity = alert, severity
	n.Event.Timestamp = n.Event.Timestamp.Add(time.Duration(minutes) * time.Minute)
	if team != "" {
		n.Event.Metadata["team"], n.Authored = team, []string{"team"}
	}
	return n
}

// checkFiring sends notifications by one Sender, and compares the revisions of the alerts that fire after each.
func checkFiring(t *testing.T, steps []firingStep) {
	t.Helper()
	v, sink, _ := serve(t)
	cfg := config(sink.URL)
	cfg.UID = "u"
	s := newSender(t, cfg)
	for i, step := range steps {
		if err := s.Send(t.Context(), step.n); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.firing, v.firing()); diff != "" {
			t.Errorf("step %d: firing (-want +got):\n%s", i, diff)
		}
	}
}

// firingStep is a notification, with the revisions of the alerts that fire after it.
type firingStep struct {
	n      provider.Notification
	firing []string
}

// Fails when an alert keeps firing for a day since the eventMetadata of its Alert was edited before the object recovered.
func TestAnEditOfTheAlertLeavesNoAlertFiring(t *testing.T) {
	checkFiring(t, []firingStep{
		{of(t, "error", "x", "a", "1", 0), []string{"1"}},
		{of(t, "error", "x", "b", "2", 1), []string{"2"}},
		{of(t, "info", "x", "c", "3", 2), nil},
	})
	checkFiring(t, []firingStep{
		{of(t, "error", "x", "", "1", 0), []string{"1"}},
		{of(t, "info", "x", "a", "2", 1), nil},
	})
}

// Fails when the failure by one Alert ends the alert that another Alert fired for it: Alertmanager would notify nobody of that.
func TestAFailureLeavesTheAlertsOfOtherAlertsFiring(t *testing.T) {
	checkFiring(t, []firingStep{
		{of(t, "error", "x", "a", "1", 0), []string{"1"}},
		{of(t, "error", "y", "", "2", 0), []string{"1", "2"}},
		{of(t, "error", "x", "a", "3", 1), []string{"2", "3"}},
		{of(t, "info", "y", "", "4", 2), nil},
	})
}

// Fails when a failure that is replayed after a newer one was sent ends the alert of that.
func TestAReplayedFailureLeavesTheAlertOfANewerOneFiring(t *testing.T) {
	late := of(t, "error", "x", "", "1", 0)
	late.Replayed = true
	checkFiring(t, []firingStep{
		{of(t, "error", "x", "", "2", 1), []string{"2"}},
		{late, []string{"1", "2"}},
		{of(t, "info", "x", "", "3", 2), nil},
	})
}

// Fails when a recovery within the second of the failure, or before it by another clock, is refused.
func TestAnEndIsNeverBeforeItsStart(t *testing.T) {
	v, _, send := serve(t)
	n := failure(t, "1")
	send(n)
	n.Event.Severity, n.Event.Timestamp = "info", n.Event.Timestamp.Add(-time.Hour)
	send(n)
	if diff := cmp.Diff([]string{"opened", "closed"}, v.events()); diff != "" {
		t.Error(diff)
	}
}

// Fails when a refused look-up fails the send of a delivered failure, or when it lets the send of a recovery succeed.
func TestALookUpThatIsRefused(t *testing.T) {
	sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	s := newSender(t, config(sink.URL))
	if err := s.Send(t.Context(), failure(t, "1")); err != nil {
		t.Errorf("a failure: %v", err)
	}
	if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != "look-up of the firing alerts: HTTP 403" {
		t.Errorf("a recovery: %v", got)
	}
	odd := providertest.NewSink(t, providertest.Says(http.StatusOK, "<html>"))
	got := event.AsError(newSender(t, config(odd.URL)).Send(t.Context(), providertest.Notifications(t)["info"]))
	if got.Label != provider.LabelReply || got.Class != event.Retry {
		t.Errorf("an odd answer: %+v", got)
	}
}

func TestALoginWithAPasswordWinsOverTheToken(t *testing.T) {
	v, sink, _ := serve(t)
	for want, cfg := range map[string]provider.Config{
		"Bearer t": {Token: "t"}, "Basic dTpw": {Token: "t", Username: "u", Password: "p"}, "": {},
	} {
		cfg.Address, cfg.Network = sink.URL, providertest.Loopback()
		if err := newSender(t, cfg).Send(t.Context(), failure(t, "1")); err != nil {
			t.Fatal(err)
		}
		if got := v.header.Get("Authorization"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, err := New(provider.Config{Address: sink.URL, Token: "a\nb", Network: providertest.Loopback()}); err == nil {
		t.Error("New took a token over two lines")
	}
}

// Fails when metadata can set a label that decides the look-up or the routing, or when a label is left that Alertmanager refuses.
func TestMetadataBecomesLabelsThatAreValid(t *testing.T) {
	n := failure(t, "1")
	n.Event.Metadata = map[string]string{
		"severity": "none", "alertname": "x", "kind": "x", "summary": "s", "a.b": "1", "a/b": "2",
		"empty": "", "9": "9", "": "nothing", "é": "é",
		"long": strings.Repeat("x", 2000),
	}
	n.Event.ReportingController = ""
	n.Event.Metadata["reportingcontroller"] = "x"
	got := firing(n, n.Event.Timestamp).Labels
	if len(got["long"]) > maxValue+3 || !strings.HasSuffix(got["long"], "… (truncated)") {
		t.Errorf("a long value has %d bytes", len(got["long"]))
	}
	delete(got, "long")
	want := map[string]string{
		"alertname": "FluxKustomizationHealthcheckfailed", "severity": "error", "reason": "HealthCheckFailed", "kind": "Kustomization",
		"name": "apps", "namespace": "team-a", "a_b": "1", "_9": "9", "_": "nothing",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFactsThatAreLeftOutAreNoLabel(t *testing.T) {
	n := providertest.Notifications(t)["many"]
	for name, value := range firing(n, n.Event.Timestamp).Labels {
		if strings.Contains(value, "left out") {
			t.Errorf("label %s is %q", name, value)
		}
	}
}

// Fails when the recovery of an object ends the alert of another cluster's object with the same name.
func TestARecoveryEndsNoAlertOfAnotherCluster(t *testing.T) {
	v, sink, _ := serve(t)
	send := func(uid string, n provider.Notification) {
		t.Helper()
		cfg := config(sink.URL)
		cfg.UID = uid
		if err := newSender(t, cfg).Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	failure, recovery := providertest.Notifications(t)["error"], providertest.Notifications(t)["info"]
	recovery.Event.InvolvedObject, recovery.Event.ReportingController = failure.Event.InvolvedObject, failure.Event.ReportingController
	recovery.Event.Timestamp = failure.Event.Timestamp.Add(time.Minute)
	recovery.Event.Metadata, recovery.Authored = failure.Event.Metadata, failure.Authored
	send("cluster-1", failure)
	if send("cluster-2", recovery); len(v.firing()) != 1 {
		t.Error("the other cluster's recovery ended the alert")
	}
	later := failure
	later.Event.Reason = "Another"
	send("cluster-2", later)
	if len(v.firing()) != 2 {
		t.Error("the other cluster's failure ended the alert")
	}
	if send("cluster-1", recovery); len(v.firing()) != 1 {
		t.Error("the own recovery did not end the own alert alone")
	}
}

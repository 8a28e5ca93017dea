package grafana

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

func newSender(t *testing.T, address string) *Sender {
	t.Helper()
	s := providertest.NewSender(t, New, provider.Config{
		Type: "grafana", Address: address + "/api/annotations", Token: "t", Network: providertest.Loopback(),
	})
	s.now = func() time.Time { return time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC) }
	return s
}

// fresh is a Grafana that keeps no annotation.
func fresh(w http.ResponseWriter, r *http.Request) { new(vendor).ServeHTTP(w, r) }

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "grafana"}, Serve: fresh, Requests: 2, Reads: true,
	})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, fresh)
	providertest.Golden(t, "grafana", newSender(t, sink.URL), sink)
}

// Fails when a region cannot be found without a state of the process, or when an ended region is ended again.
func TestARecoveryEndsTheRegionThatTheFailureBegan(t *testing.T) {
	v := new(vendor)
	sink := providertest.NewSink(t, v.ServeHTTP)
	providertest.Incidents(t, func() provider.Sender { return newSender(t, sink.URL) }, v.events)
	// A failure, a wait, a failure and a success: sent twice, and written once. Three successes only close.
	if n := len(v.all); n != 4 {
		t.Errorf("%d annotations were written, want 4", n)
	}
	region := v.all[0]
	if got := time.Duration(region.TimeEnd-region.Time) * time.Millisecond; got != 2*time.Minute {
		t.Errorf("the region lasts %v, want 2m", got)
	}
}

// Fails when only the newest annotations are searched for the region: an open one sinks below the points that follow.
func TestARegionIsFoundBelowManyPoints(t *testing.T) {
	v := new(vendor)
	s := newSender(t, providertest.NewSink(t, v.ServeHTTP).URL)
	n := providertest.Notifications(t)["error"]
	send := func(severity, reason string) {
		t.Helper()
		n.Event.Severity, n.Event.Reason = severity, reason
		n.Event.Timestamp = n.Event.Timestamp.Add(time.Minute)
		n.DeliveryID = n.Event.Timestamp.String()
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	send("error", "HealthCheckFailed")
	for range newest + 1 {
		send("info", "DependencyNotReady")
	}
	send("error", "HealthCheckFailed")
	send("info", "ReconciliationSucceeded")
	if diff := cmp.Diff([]string{"opened", "closed"}, v.events()); diff != "" {
		t.Error(diff)
	}
}

// Fails when a failure within a region begins another region, when its text is lost, or when a recovery in the same second leaves the
// region open.
func TestAFurtherFailureReplacesTheText(t *testing.T) {
	v := new(vendor)
	sink := providertest.NewSink(t, v.ServeHTTP)
	s := newSender(t, sink.URL)
	n := providertest.Notifications(t)["error"]
	for i, message := range []string{"first", "second", "over"} {
		n.Event.Message, n.DeliveryID = message, strings.Repeat("0", i+1)
		if message == "over" {
			n.Event.Severity = "info"
		}
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"opened", "closed"}, v.events()); diff != "" {
		t.Error(diff)
	}
	if region := v.all[0]; region.Text != "kustomization/apps.team-a\nsecond" || region.TimeEnd != region.Time+1 {
		t.Errorf("got %+v", region)
	}
}

// Fails when the text of a failure that is replayed after a newer one was sent replaces the newer text.
func TestAReplayedFailureKeepsTheNewerText(t *testing.T) {
	v := new(vendor)
	s := newSender(t, providertest.NewSink(t, v.ServeHTTP).URL)
	newer := providertest.Notifications(t)["error"]
	late := newer
	newer.Event.Message, newer.DeliveryID, newer.Event.Timestamp = "newer", "1", newer.Event.Timestamp.Add(time.Minute)
	late.Event.Message, late.DeliveryID, late.Replayed = "late", "2", true
	providertest.SendAll(t, s, newer, late)
	if region := v.all[0]; len(v.all) != 1 || region.Text != "kustomization/apps.team-a\nnewer" {
		t.Errorf("%d annotations, %+v", len(v.all), region)
	}
}

// Fails when Grafana's answer is not compared with the object's tags, or when objects with long names count as one.
func TestTheRegionOfAnotherObjectStaysOpen(t *testing.T) {
	long := strings.Repeat("x", 200)
	for name, filters := range map[string]bool{"a Grafana that filters": true, "a proxy that drops the query": false} {
		v := new(vendor)
		sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
			if !filters && r.Method == http.MethodGet {
				r.URL.RawQuery = "limit=50"
			}
			v.ServeHTTP(w, r)
		})
		s := newSender(t, sink.URL)
		for i, object := range []string{long + "1", long + "2", "a:b", "a"} {
			n := providertest.Notifications(t)["error"]
			n.DeliveryID, n.Event.InvolvedObject.Name = strings.Repeat("0", i+1), object
			if object == "a" || object == long+"2" {
				n.Event.Severity = "info"
			}
			if err := s.Send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]string{"opened", "opened"}, v.events()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Fails when the tags together, or a part of a tag, are longer than Grafana takes, or when metadata sets the tag of a failure.
func TestTagsFit(t *testing.T) {
	n := providertest.Notifications(t)["many"]
	worst := strings.Repeat("é: ", 300)
	n.Event.InvolvedObject = event.ObjectReference{Kind: worst[:250], Namespace: worst[:250], Name: worst[:250]}
	n.Event.ReportingController = worst
	n.Event.Metadata["severity"], n.Event.Metadata["summary"], n.Event.Metadata[":"] = "error", worst, "x"
	for _, severity := range []string{"info", "error"} {
		v := new(vendor)
		n.Event.Severity = severity
		if err := newSender(t, providertest.NewSink(t, v.ServeHTTP).URL).Send(t.Context(), n); err != nil {
			t.Fatalf("%s: %v", severity, err)
		}
		if opened := len(v.log) == 1; opened != (severity == "error") {
			t.Errorf("%s: %q", severity, v.log)
		}
	}
}

// Fails when a control character is sent as it is: PostgreSQL stores no NUL, so Grafana answers 500, and the event would be sent again and
// again.
func TestControlCharactersAreReplaced(t *testing.T) {
	v := new(vendor)
	s := newSender(t, providertest.NewSink(t, v.ServeHTTP).URL)
	n := providertest.Notifications(t)["error"]
	n.Event.InvolvedObject.Name, n.Event.ReportingController = "a\x00b", "c\x00"
	n.Event.Message, n.Event.Metadata = "m\x00", map[string]string{"k\x00": "v\x00"}
	for i, message := range []string{"m\x00", "again\x00"} {
		n.Event.Message, n.DeliveryID = message, strings.Repeat("0", i+1)
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if len(v.all) != 1 || v.all[0].Text != "kustomization/a\uFFFDb.team-a\nagain\uFFFD" {
		t.Errorf("got %+v", v.all)
	}
}

// Fails when a login with permission to write, but not to read, is refused. Flux needs no more.
func TestWithoutThePermissionToReadAnEventIsAPoint(t *testing.T) {
	v := new(vendor)
	sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		v.ServeHTTP(w, r)
	})
	for _, name := range []string{"error", "info"} {
		if err := newSender(t, sink.URL).Send(t.Context(), providertest.Notifications(t)[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(v.all) != 2 {
		t.Errorf("%d annotations, want 2", len(v.all))
	}
	odd := providertest.NewSink(t, providertest.Says(http.StatusOK, "<html>"))
	if got := event.AsError(newSender(t, odd.URL).Send(t.Context(), providertest.Notifications(t)["info"])); got.Label != provider.LabelReply {
		t.Errorf("an odd answer: %+v", got)
	}
}

func TestATokenWinsOverAPassword(t *testing.T) {
	sink := providertest.NewSink(t, fresh)
	for want, cfg := range map[string]provider.Config{
		"Bearer t": {Token: "t", Username: "u", Password: "p"}, "Basic dTpw": {Username: "u", Password: "p"}, "": {},
	} {
		cfg.Address, cfg.Network = sink.URL, providertest.Loopback()
		s := providertest.NewSender(t, New, cfg)
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Error(err)
		}
		if got := sink.Last(t).Header.Get("Authorization"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		_ = s.Close()
	}
}

// Fails when clusters that share a Grafana end each other's regions, or when another's data hides a region.
func TestTheObjectsOfTwoClustersAreTwo(t *testing.T) {
	for name, c := range map[string]struct {
		uid  string
		data map[string]any
		want []string
	}{
		"another object of the name": {"u-2", nil, []string{"opened"}},
		"a Grafana that keeps none":  {"u-1", map[string]any{}, []string{"opened", "closed"}},
		"data of another kind":       {"u-1", map[string]any{"object": 7}, []string{"opened", "closed"}},
	} {
		v := new(vendor)
		sink := providertest.NewSink(t, v.ServeHTTP)
		n := providertest.Notifications(t)["error"]
		n.Event.InvolvedObject.UID = "u-1"
		if err := newSender(t, sink.URL).Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if c.data != nil {
			v.all[0].Data = c.data
		}
		n.Event.Severity, n.Event.InvolvedObject.UID, n.DeliveryID = "info", c.uid, "2"
		if err := newSender(t, sink.URL).Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, v.events()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestMetadataMarksNoFailure(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	n.Event.Metadata = map[string]string{"severity": "error", "name": "x", "cluster": "c"}
	want := []string{"flux", "kind: Kustomization", "name: apps", "namespace: team-a", "kustomize-controller", "cluster: c"}
	if diff := cmp.Diff(want, tagsOf(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

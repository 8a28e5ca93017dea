package reconcile

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/event"
	"notifier/internal/reconcile/recorder"
)

// givenUp is a number of deliveries that are given up together, and the reason.
type givenUp struct {
	n             int
	label, reason string
}

// TestLossesAreReportedOnTheAlertAndTheProvider is E5 from the giving up of a delivery on. Its numbers are those of the day in the test
// of E5 in internal/alerts, with a quota of 40. The deliverer, its ledger and the Recorder are real. Fails when a loss is not counted in
// either status, or when the condition of either omits it, has another number, or does not end. Fails when no Kubernetes Event has the reason, and when
// the metric does not count it.
func TestLossesAreReportedOnTheAlertAndTheProvider(t *testing.T) {
	full := givenUp{8621, event.LabelQuota, "the namespace has more deliveries waiting than its quota"}
	for name, losses := range map[string][]givenUp{
		"one that hangs":           {full, {19, "expired", "expired: not delivered within 24 hours, last: no answer in time"}},
		"one that is not ready":    {full, {19, "expired", "expired: not delivered within 24 hours, last: ProviderNotReady"}},
		"one that nobody supports": {{8640, "unsupported_type", "type odd is not supported"}},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			var deliverer *alerts.Deliverer
			var events *lateSink
			s := oneOfEach()
			s.change = func(o *Options) {
				ledger := alerts.NewLedger(o.Alerts, o.Destinations)
				o.Ledger = ledger
				deliverer, events = losingDeliverer(t, o, ledger, registry)
			}
			play(t, s, func(w *world) {
				events.Sink = fakeEvents{w.core}
				ctx, stop := context.WithCancel(w.t.Context())
				ended := make(chan error, 1)
				go func() { ended <- events.Run(ctx) }()
				w.settle()
				all := 0
				for _, loss := range losses {
					for range loss.n {
						deliverer.Lost(deliveryTo("chat"), nil, loss.label, loss.reason)
					}
					all += loss.n
					at := time.Now()
					pass(time.Minute)
					w.says(all, at, loss)
					if n := counted(t, registry, loss.label); n != loss.n {
						t.Errorf("the metric counts %d of %q, want %d", n, loss.label, loss.n)
					}
					pass(30 * time.Minute) // the rate limit permits each object an Event again
				}
				pass(othersShown)
				for kind, name := range map[string]string{v1.AlertKind: "alert", v1.ProviderKind: "chat"} {
					if short, _ := w.condition(kind, name, deliveriesLostCondition); !strings.HasPrefix(short, "False") {
						t.Errorf("an hour later the condition of the %s is %q", kind, short)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// lateSink is a Sink that is set before the Recorder over it runs.
type lateSink struct {
	recorder.Sink
	*recorder.Recorder
}

// losingDeliverer returns a Deliverer whose deliveries a test gives up, and its Recorder.
func losingDeliverer(t *testing.T, o *Options, l *alerts.Ledger, registry *prometheus.Registry) (*alerts.Deliverer, *lateSink) {
	t.Helper()
	sink := &lateSink{}
	sink.Recorder = recorder.New(sink, discard())
	d, err := alerts.NewDeliverer(alerts.DelivererOptions{
		Bus: noDeliveries{}, Alerts: o.Alerts, Destinations: o.Destinations, Reports: l, Recorder: sink.Recorder, Types: []string{"generic"}, Quota: 40,
		MaxAge: alerts.DefaultMaxAge, DrainTimeout: time.Second, Gate: make(chan struct{}), Log: slog.New(slog.DiscardHandler), Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, sink
}

// noDeliveries is a bus without deliveries.
type noDeliveries struct{ alerts.Bus }

func (noDeliveries) Shards() int { return 1 }

func deliveryTo(provider string) *event.Delivery {
	return &event.Delivery{
		Namespace: "team-a", Alert: "alert", AlertUID: "uid-alert", Provider: provider, ProviderUID: "uid-" + provider,
		Event: event.Event{
			InvolvedObject: event.ObjectReference{Kind: "Kustomization", Namespace: "team-a", Name: "app"}, Reason: "ReconciliationSucceeded",
		},
	}
}

// says checks the statuses and Events of the Alert and the Provider after all deliveries were given up, the last at a time.
func (w *world) says(all int, at time.Time, last givenUp) {
	w.t.Helper()
	w.saysOf(v1.AlertKind, "alert", alerts.ReasonDispatchFailed, last)
	w.saysOf(v1.ProviderKind, "chat", alerts.ReasonGivenUp, last)
	want := strconv.Itoa(all) + " given up, the last at " + at.UTC().Format(time.RFC3339) + ", about kustomization/app.team-a: " + last.reason
	for kind, shown := range map[string]v1.DeliveryStatus{
		v1.AlertKind: w.live("Alert", "alert").(*v1.Alert).Status.DeliveryStatus, v1.ProviderKind: w.shown(),
	} {
		name := map[string]string{v1.AlertKind: "alert", v1.ProviderKind: "chat"}[kind]
		if short, message := w.condition(kind, name, deliveriesLostCondition); short != "True DeliveryGivenUp" || message != want {
			w.t.Errorf("the condition of the %s: %q %q, want %q", kind, short, message, want)
		}
		if shown.Failed != int64(all) || shown.LastFailure == nil || shown.LastFailure.Class != last.label ||
			shown.LastFailure.Outcome != "dead" || shown.LastFailure.Failure != last.reason {
			w.t.Errorf("the status of the %s: failed %d, last failure %+v, want %d of %+v", kind, shown.Failed, shown.LastFailure, all, last)
		}
	}
}

// saysOf checks that a Kubernetes Event on an object has a reason.
func (w *world) saysOf(kind, name, reason string, last givenUp) {
	w.t.Helper()
	list, err := w.core.CoreV1().Events("team-a").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range list.Items {
		if o := e.InvolvedObject; o.Kind == kind && o.Name == name && string(o.UID) == "uid-"+name && e.Type == "Warning" &&
			e.Reason == reason && strings.HasSuffix(e.Message, last.reason) {
			return
		}
	}
	w.t.Errorf("no Event on the %s tells %q", kind, last.reason)
}

// counted returns the metric's number of deliveries given up for a reason.
func counted(t *testing.T, registry *prometheus.Registry, label string) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "notifier_deliveries_total" && labels["outcome"] == "dead" && labels["reason"] == label {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

// T6: a tenant writes that its Provider lost a delivery in the year 9999. Fails when the time until the status is looked at again is beyond
// the hour for which a loss is shown: with its jitter it is more than a duration can be, and the status is looked at all the time.
func TestT6ALossInTheFutureIsLookedAtAgainWithinTheHour(t *testing.T) {
	future := metav1.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)
	play(t, oneOfEach(), func(w *world) {
		p := newProvider("other")
		p.Status.Conditions = []metav1.Condition{{Type: deliveriesLostCondition, Status: metav1.ConditionTrue, LastTransitionTime: future}}
		if after := lossesEnd(p); after > othersShown {
			t.Fatalf("the status is looked at again after %s", after)
		}
		w.apply("Provider", p)
		w.ready("Provider", "other", "True Succeeded")
	})
}

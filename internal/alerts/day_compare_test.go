package alerts

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// atOnce is the longest time from an event to its message at a healthy destination: a push is sent eight at a time.
const atOnce = time.Second

// told has the counts in the status of an Alert or a Provider, and the number of Kubernetes Events on it.
type told struct{ Delivered, GivenUp, Waiting, Dead, Events int }

// dayHealth is the reason of each Provider's health. The unsupported one has none: its Ready condition says why.
var dayHealth = map[string]string{
	"healthy": ReasonDelivered, "hanging": ReasonBreakerOpen, "unready": ReasonProviderNotReady, "witness": ReasonDelivered,
}

// compare checks that every event is accounted for. reasons are the expected reasons of each broken Provider's dead letters.
func (d *day) compare(when string, reasons map[string][]string) {
	d.t.Helper()
	d.allSent(when, "team-a", "healthy", d.healthy)
	d.allSent(when, "team-b", "witness", d.witness)
	all := len(d.published["team-a"])
	for name, why := range reasons {
		counted, letters, waiting := d.counted(name, outcomeDead), d.letters(name), d.waiting(name)
		d.t.Logf("%s, quota %d, %s: of %d accepted %d wait, given up: %v", when, d.quota, name, all, waiting, counted)
		if got := slices.Sorted(maps.Keys(counted)); !slices.Equal(got, why) {
			d.t.Errorf("%s, %s: given up for %v, want %v", when, name, got, why)
		}
		if !maps.Equal(letters, counted) && name != "unsupported" { // its events are not kept
			d.t.Errorf("%s, %s: the metric counts %v, the dead letters are %v", when, name, counted, letters)
		}
		givenUp := sum(counted)
		if givenUp+waiting != all {
			d.t.Errorf("%s, %s: %d given up and %d waiting are not the %d accepted", when, name, givenUp, waiting, all)
		}
		d.saidOf(when, name, told{GivenUp: givenUp, Waiting: waiting, Dead: sum(letters), Events: givenUp})
	}
}

// allSent checks that a Provider was sent every event of its namespace at once, in order per object and each once. It also checks that
// nothing else is reported of the Provider and its Alert.
func (d *day) allSent(when, namespace, name string, dest *sink) {
	d.t.Helper()
	want, got, accepted := map[string][]string{}, map[string][]string{}, map[string]time.Time{}
	for _, rec := range d.published[namespace] {
		id, object := event.DeliveryID(rec, "uid-"+name, name), rec.Event.InvolvedObject.Name
		want[object], accepted[id] = append(want[object], id), rec.Accepted
	}
	worst := time.Duration(0)
	for i, n := range dest.got {
		object := n.Event.InvolvedObject.Name
		got[object] = append(got[object], n.DeliveryID)
		worst = max(worst, dest.when[i].Sub(d.sendable(accepted[n.DeliveryID])))
	}
	for object := range want {
		if !slices.Equal(want[object], got[object]) {
			d.t.Errorf("%s, %s: of %d events of %s it was sent %d, or in another order", when, name, len(want[object]), object, len(got[object]))
		}
	}
	if worst > atOnce {
		d.t.Errorf("%s, %s: delayed by %v", when, name, worst)
	}
	if dead := d.counted(name, outcomeDead); len(dead) != 0 {
		d.t.Errorf("%s, %s: given up: %v", when, name, dead)
	}
	all := len(d.published[namespace])
	if sent := d.counted(name, outcomeSent); sum(sent) != all {
		d.t.Errorf("%s, %s: the metric counts %v as sent, of %d", when, name, sent, all)
	}
	d.saidOf(when, name, told{Delivered: all})
}

// sendable returns when an event that was accepted at a time can have been sent: each is tried again within a minute of a restart.
func (d *day) sendable(accepted time.Time) time.Time {
	began := accepted.Add(-(accepted.Sub(d.began) % restartEvery)).Add(restartAt)
	up := began.Add(restartTakes + time.Minute)
	if accepted.Before(began) || accepted.After(up) {
		return accepted
	}
	return up
}

// saidOf checks the last report of a Provider and of its Alert, which have the same deliveries.
func (d *day) saidOf(when, name string, want told) {
	d.t.Helper()
	namespace := "team-a"
	if name == "witness" {
		namespace = "team-b"
	}
	for _, kind := range []string{kindAlert, kindProvider} {
		all := d.notes.standings(kind + "/" + namespace + "/" + name)
		if len(all) == 0 {
			d.t.Errorf("%s: nothing is told of the %s %s", when, kind, name)
			continue
		}
		s := all[len(all)-1]
		s.Loss = d.notes.ledger.Get(kind, namespace, name).Loss
		got := told{
			Delivered: int(s.Delivered), GivenUp: int(s.Failed), Waiting: s.Pending, Dead: s.Dead, Events: d.eventsOf(kind, namespace, name),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			d.t.Errorf("%s, told of the %s %s (-want +got):\n%s", when, kind, name, diff)
		}
		if kind == kindProvider && s.Health.Reason != dayHealth[name] {
			d.t.Errorf("%s, the Provider %s: health %+v", when, name, s.Health)
		}
		switch recent := s.Loss.Count != 0; {
		case want.GivenUp > 0 && s.Loss.At.IsZero(), recent && s.Loss.Count != want.GivenUp, recent != (time.Since(s.Loss.At) < lossesShown):
			d.t.Errorf("%s, the %s %s: of %d given up the condition says %+v", when, kind, name, want.GivenUp, s.Loss)
		}
	}
}

// eventsOf counts the Kubernetes Events on an object about a delivery that was given up.
func (d *day) eventsOf(kind, namespace, name string) (n int) {
	on := kind + "/" + namespace + "/" + name + " "
	for _, e := range d.notes.recorded() {
		if strings.HasPrefix(e, on) && !strings.HasSuffix(e, "will retry") {
			n++
		}
	}
	return n
}

// counted returns the metric's counts of a Provider's type with an outcome, by reason.
func (d *day) counted(name, outcome string) map[string]int {
	d.t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	by := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "notifier_deliveries_total" && labels["type"] == dayTypes[name] && labels["outcome"] == outcome {
				by[labels["reason"]] += int(m.GetCounter().GetValue())
			}
		}
	}
	maps.DeleteFunc(by, func(_ string, n int) bool { return n == 0 })
	return by
}

// letters counts the dead letters of a Provider by reason.
func (d *day) letters(name string) map[string]int {
	by := map[string]int{}
	for _, l := range d.bus.deadLetters() {
		if l.d.Provider == name {
			by[l.label]++
		}
	}
	return by
}

// waiting counts a Provider's deliveries on the bus, once no event is open.
func (d *day) waiting(name string) (n int) {
	d.t.Helper()
	if open := d.events.open(); open != 0 {
		d.t.Errorf("%d events are not done", open)
	}
	d.bus.mu.Lock()
	defer d.bus.mu.Unlock()
	for _, m := range slices.Concat(d.bus.stream, d.bus.schedule) {
		if m.d.Provider == name {
			n++
		}
	}
	return n
}

// written counts the writes of a Provider's deliveries to the schedule.
func (d *day) written(name string) (n int) {
	for _, p := range d.bus.parkings() {
		if p.d.Provider == name {
			n++
		}
	}
	return n
}

func sum(by map[string]int) (n int) {
	for _, m := range by {
		n += m
	}
	return n
}

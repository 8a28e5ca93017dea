package reconcile

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/recorder"
)

// Ledger has the health of Alerts and Providers at work, while this replica is the worker; alerts.Ledger is one.
type Ledger interface {
	// Get returns the last report on an object.
	Get(kind, namespace, name string) alerts.Standing
	// Follow calls changed for each object with a new report, and all when any may have one, until ctx ends.
	Follow(ctx context.Context, changed func(kind, namespace, name string), all func())
}

// follow enqueues the statuses of Alerts and Providers with a new report, until ctx ends.
func (r *Reconciler) follow(ctx context.Context) {
	r.options.Ledger.Follow(ctx, func(kind, namespace, name string) {
		r.kinds[kind].restate(kube.Key{Namespace: namespace, Name: name})
	}, func() {
		r.alerts.enqueueAll()
		r.providers.enqueueAll()
	})
}

// standing returns the report on an object. Of a report on an earlier object of the same name it returns only the counts.
func (r *Reconciler) standing(kind string, o metav1.Object) alerts.Standing {
	s := r.options.Ledger.Get(kind, o.GetNamespace(), o.GetName())
	if s.UID != string(o.GetUID()) {
		return alerts.Standing{Counted: s.Counted, Pending: s.Pending, Dead: s.Dead}
	}
	return s
}

// reports returns the reports on the health of an object: from the feed for a Receiver, else from its standing.
func (r *Reconciler) reports(kind string, o metav1.Object) (reports []report) {
	if kind == v1.ReceiverKind {
		return r.health.about(o)
	}
	s := r.standing(kind, o)
	if s.Health.State != "" {
		reports = append(reports, alertReport(kind, s.UID, s.Health))
	}
	if !s.Loss.At.IsZero() {
		reports = append(reports, lossReport(s.UID, s.Loss))
	}
	return reports
}

// deliveriesOf returns the outcome of the deliveries in the status of an Alert or a Provider, nil for a Receiver.
func deliveriesOf(o kube.Object) *v1.DeliveryStatus {
	switch o := o.(type) {
	case *v1.Alert:
		return &o.Status.DeliveryStatus
	case *v1.Provider:
		return &o.Status.DeliveryStatus
	}
	return nil
}

// showLedger writes the parts of the status that Alerts and Providers have in common: the outcome of deliveries, and the last handled requests.
func (r *Reconciler) showLedger(o kube.Object, kind string, s alerts.Standing) {
	showDeliveries(deliveriesOf(o), s)
	if was, ok := r.health.asked(kind+askedSuffix, o); ok {
		replay, test := handledFields(o)
		*replay, *test = was.Replay, was.Test
	}
}

// showDeliveries merges the outcome of an object's deliveries into its status. Unknown values leave the status unchanged: it is the only
// record of other workers' deliveries.
func showDeliveries(shown *v1.DeliveryStatus, s alerts.Standing) {
	if s.Counted {
		shown.Pending, shown.Dead = int64(s.Pending), int64(s.Dead)
	}
	none := s.Counted && s.Pending == 0 // so that none is tried again
	if none && shown.LastFailure != nil {
		shown.LastFailure.NextTry = nil
	}
	if len(s.Recent) == 0 {
		return
	}
	since := inSeconds(s.Since)
	shown.CountedSince, shown.Delivered, shown.Failed = &since, s.Delivered, s.Failed
	if !s.LastDelivery.Time.IsZero() {
		shown.LastDelivery = outcomeShown(s.LastDelivery, "")
	}
	if !s.LastFailure.Time.IsZero() {
		shown.LastFailure = outcomeShown(s.LastFailure, s.Failure)
		if !s.NextTry.IsZero() && !none {
			at := inSeconds(s.NextTry)
			shown.LastFailure.NextTry = &at
		}
	}
	earlier := shown.Recent
	shown.Recent = make([]v1.DeliveryOutcome, 0, v1.MaxRecentDeliveries)
	for _, o := range slices.Backward(s.Recent) {
		shown.Recent = append(shown.Recent, *outcomeShown(o, ""))
	}
	for _, o := range earlier {
		if len(shown.Recent) < v1.MaxRecentDeliveries && o.Time.Before(&since) {
			shown.Recent = append(shown.Recent, o)
		}
	}
}

func outcomeShown(o alerts.Outcome, failure string) *v1.DeliveryOutcome {
	return &v1.DeliveryOutcome{
		Time: inSeconds(o.Time), Object: o.Kind + "/" + o.Name, Reason: o.Reason, Outcome: o.Result,
		Attempts: o.Attempts, Status: o.Status, Class: o.Class, Failure: cut(failure, recorder.MaxMessage),
	}
}

// detailProvider writes the fields that only a Provider has. It reads the condition Delivering, so it runs after that is written.
func detailProvider(p *v1.Provider, s alerts.Standing) {
	if s.Counted {
		p.Status.Waiting = 0
		if meta.IsStatusConditionFalse(p.Status.Conditions, deliveringCondition) {
			p.Status.Waiting = int64(s.Pending)
		}
	}
	p.Status.LastDelivered = lastOf(p.Status.LastDelivered, s)
	p.Status.Problem = problemOf(p)
}

// detailAlert writes the fields that only an Alert has.
func detailAlert(a *v1.Alert, s alerts.Standing) {
	inSteps(&a.Status.LastMatched, s.Matched)
	a.Status.LastSent = lastOf(a.Status.LastSent, s)
	a.Status.Problem = problemOf(a)
}

// lastOf returns the time of the last accepted delivery, the later of shown and this worker's.
func lastOf(shown *metav1.Time, s alerts.Standing) *metav1.Time {
	if s.LastDelivery.Time.IsZero() {
		return shown
	}
	at := inSeconds(s.LastDelivery.Time)
	return latest(shown, &at)
}

// othersShown is how long another worker's report on losses or expensive patterns stays in the status, from the last loss or the report.
const othersShown = time.Hour

// lookForLosses is the least delay before the status is checked again for ended losses.
const lookForLosses = time.Minute

// endExpensive removes the report of another worker on expensive patterns after othersShown. This worker's own is ended by its standing.
func endExpensive(conditions *[]metav1.Condition, s alerts.Standing) {
	if tooExpensive(*conditions) && s.Health.Reason != alerts.ReasonPatternsTimed &&
		time.Since(meta.FindStatusCondition(*conditions, matchingCondition).LastTransitionTime.Time) >= othersShown {
		removeCondition(conditions, matchingCondition)
	}
}

// endFormer removes the report that a Provider cannot be delivered to, once it is another one by its spec or a Secret: deliveries do not wait
// for it to become ready any more, or were refused to it as it was. If they expired or were given up meanwhile, nothing is sent that would
// replace the report, perhaps for days.
func (r *Reconciler) endFormer(p *v1.Provider, v verdict, s alerts.Standing) {
	c := meta.FindStatusCondition(p.Status.Conditions, deliveringCondition)
	if c == nil || c.Status != metav1.ConditionFalse || !v.ready {
		return
	}
	is := r.options.Destinations.Get(p.Namespace, p.Name)
	changed := c.Reason == alerts.ReasonProviderNotReady
	switch {
	case is == nil || changed:
	case s.Health.Version != "":
		changed = s.Health.Version != is.Version
	default: // it is another worker's report, of the last failure
		last := &c.LastTransitionTime
		if failure := p.Status.LastFailure; failure != nil {
			last = latest(last, &failure.Time)
		}
		changed = c.ObservedGeneration != 0 && c.ObservedGeneration != v.generation || last.Time.Before(is.Changed)
	}
	if changed {
		removeCondition(&p.Status.Conditions, deliveringCondition)
	}
}

// endLosses ends the condition DeliveriesLost of another worker after othersShown. This worker's own is ended by its standing.
func endLosses(o kube.Object, s alerts.Standing) {
	conditions := o.Conditions()
	if s.Loss.At.IsZero() && meta.IsStatusConditionTrue(*conditions, deliveriesLostCondition) && lossesEnd(o) <= 0 {
		c := lossReport("", alerts.Loss{}).condition
		c.ObservedGeneration = meta.FindStatusCondition(*conditions, deliveriesLostCondition).ObservedGeneration
		meta.SetStatusCondition(conditions, c)
	}
}

// lossesEnd returns the time until the condition DeliveriesLost is to end, othersShown if it is not shown. It is never longer, as it would be
// after a loss in the future: tenants may write statuses.
func lossesEnd(o kube.Object) time.Duration {
	c, d := meta.FindStatusCondition(*o.Conditions(), deliveriesLostCondition), deliveriesOf(o)
	if c == nil || d == nil || c.Status != metav1.ConditionTrue {
		return othersShown
	}
	last := c.LastTransitionTime
	if d.LastFailure != nil && last.Before(&d.LastFailure.Time) {
		last = d.LastFailure.Time
	}
	return min(othersShown, time.Until(last.Add(othersShown)))
}

// feedKinds maps the kinds of the feed's keys to the kinds of their objects. Other keys, such as earlier releases' reports on Alerts and
// Providers at work, are removed.
var feedKinds = map[string]string{
	v1.ReceiverKind: v1.ReceiverKind, loopKind: v1.ReceiverKind, deliveriesKind: v1.ReceiverKind,
	alertAsked: v1.AlertKind, providerAsked: v1.ProviderKind,
}

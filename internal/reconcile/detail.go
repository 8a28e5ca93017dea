package reconcile

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/alerts"
	"notifier/internal/reconcile/kube"
)

// prunedFor is the time without writes of the fields that Flux's own definitions lack, after the API server dropped them. Then they are
// tried again: the definitions may have been replaced since.
const prunedFor = 10 * time.Minute

// detail is a part of a kind's status.
type detail[T kube.Object] struct {
	write func(T)
	// shown reports whether an object's status has any of the part. A zero time is none: it is sent as null, which the API server drops.
	shown func(T) bool
}

// ledgerDetails returns the parts of the status of Alerts or Providers. write and shown are for the part that only this kind has.
func ledgerDetails[T kube.Object](r *Reconciler, kind string, write func(T, alerts.Standing), shown func(T) bool) []detail[T] {
	return []detail[T]{
		{func(o T) { write(o, r.standing(kind, o)) }, shown},
		{
			func(o T) { showDeliveries(deliveriesOf(o), r.standing(kind, o)) },
			func(o T) bool { return deliveriesShown(deliveriesOf(o)) },
		},
		{
			func(o T) {
				if was, ok := r.health.asked(kind+askedSuffix, o); ok {
					replay, test := handledFields(o)
					*replay, *test = was.Replay, was.Test
				}
			},
			func(o T) bool {
				replay, test := handledFields(o)
				return *replay != "" || *test != ""
			},
		},
	}
}

// maxProblem bounds a problem, which is a cell of a table, in bytes.
const maxProblem = 256

// troubles lists the conditions that report a problem, the most urgent first, and the status that does so.
var troubles = []struct {
	condition string
	when      metav1.ConditionStatus
	// announced reports that the condition has no Event of its own.
	announced bool
}{
	{v1.ReadyCondition, metav1.ConditionFalse, false},
	{v1.ServingCondition, metav1.ConditionFalse, false},
	{v1.WriteDeniedCondition, metav1.ConditionTrue, true},
	{deliveringCondition, metav1.ConditionFalse, true},
	{matchingCondition, metav1.ConditionFalse, true},
	{v1.LoopDetectedCondition, metav1.ConditionTrue, true},
	{deliveriesLostCondition, metav1.ConditionTrue, false},
}

// problemOf returns the most urgent problem of an object, on one line, or "".
func problemOf(o kube.Object) string {
	for _, t := range troubles {
		c := meta.FindStatusCondition(*o.Conditions(), t.condition)
		if c == nil || c.Status != t.when {
			continue
		}
		if likely := meta.FindStatusCondition(*o.Conditions(), matchingCondition); c.Reason == v1.KindNotFoundReason &&
			likely != nil && likely.Reason == v1.UnknownKindReason {
			c = likely // it has the kind that is meant
		}
		return inLine(c.Message)
	}
	if r, ok := o.(*v1.Receiver); ok {
		return inLine(receiverProblem(r))
	}
	return ""
}

// filterFailed is the result of an accepted webhook for which a filter failed.
const filterFailed = "filter"

// receiverProblem returns the problem of a Receiver that serves, or "".
func receiverProblem(r *v1.Receiver) string {
	subject := "webhook"
	if r.Spec.Type == v1.EventReceiver {
		subject = "event"
	}
	if r.Spec.Suspend {
		return "spec.suspend is set: no " + subject + " triggers; unset it to go on"
	}
	d := r.Status.Deliveries
	if d == nil || d.LastError == nil {
		return ""
	}
	if d.LastError.Result == filterFailed { // of a webhook that was accepted, at the same time
		if d.Last != nil && d.LastError.Time.Before(&d.Last.Time) {
			return ""
		}
		return "a filter failed for the last webhook: " + d.LastError.Reason
	}
	if d.Last != nil && !d.Last.Time.Before(&d.LastError.Time) {
		return ""
	}
	problem := "the last " + subject + " was not accepted: " + d.LastError.Reason
	if advice := webhookAdvice[d.LastError.Result]; advice != "" {
		problem += "; " + advice
	}
	return problem
}

// webhookAdvice maps the result of a webhook that was not accepted to advice for the owner.
var webhookAdvice = map[string]string{
	"unauthentic": "compare the sender's secret with the key \"token\" of the Secret, in which a line end counts too",
	"event":       "add it to spec.events, or have the sender leave it out",
	"quota":       "correct the Receivers whose resources are refused, see their condition WriteDenied",
	"payload":     "see which format the sender has to be set to",
	"too_large":   "have the sender leave something out",
}

// inLine makes a message one line of a table.
func inLine(message string) string {
	return cut(strings.Join(strings.Fields(message), " "), maxProblem)
}

func providerDetailed(p *v1beta3.Provider) bool {
	return !p.Status.LastDelivered.IsZero() || p.Status.Waiting != 0 || p.Status.Problem != ""
}

// inSteps sets *shown to at, unless at is less than matchedStep later: each change is a write of status.
func inSteps(shown **metav1.Time, at time.Time) {
	if at.IsZero() || *shown != nil && at.Sub((*shown).Time) < matchedStep {
		return
	}
	now := inSeconds(at)
	*shown = &now
}

func alertDetailed(a *v1beta3.Alert) bool {
	return !a.Status.LastMatched.IsZero() || !a.Status.LastSent.IsZero() || a.Status.Problem != ""
}

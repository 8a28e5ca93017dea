package reconcile

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

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
	problem := "the last " + subject + " was not accepted: " + cmp.Or(d.LastError.Reason, d.LastError.Result)
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

// inSteps sets *shown to at, unless at is less than matchedStep later: each change is a write of status.
func inSteps(shown **metav1.Time, at time.Time) {
	if at.IsZero() || *shown != nil && at.Sub((*shown).Time) < matchedStep {
		return
	}
	now := inSeconds(at)
	*shown = &now
}

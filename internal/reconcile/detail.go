package reconcile

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
)

// prunedFor is how long the fields that Flux's own definitions lack are not written after the API server dropped them: they may have
// been replaced by definitions that have them.
const prunedFor = 10 * time.Minute

// detail is a part of a kind's status.
type detail[T subject] struct {
	write func(T)
	// shown reports whether an object has anything of it.
	shown func(T) bool
}

// pruned remembers when the API server was last found to drop fields of ours.
type pruned struct {
	mu sync.Mutex
	at time.Time
}

func (p *pruned) note(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = now
}

func (p *pruned) lately(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.at.IsZero() && now.Sub(p.at) < prunedFor
}

// maxProblem bounds a problem, which is shown in a table, in bytes.
const maxProblem = 256

// troubles are the conditions that tell what is wrong, the first to mend first, and the status in which they do.
var troubles = []struct {
	condition string
	when      metav1.ConditionStatus
	// announced says that the condition is not recorded by an Event of its own.
	announced bool
}{
	{v1.ReadyCondition, metav1.ConditionFalse, false},
	{v1.ServingCondition, metav1.ConditionFalse, false},
	{v1.WriteDeniedCondition, metav1.ConditionTrue, true},
	{DeliveringCondition, metav1.ConditionFalse, true},
	{MatchingCondition, metav1.ConditionFalse, true},
	{v1.LoopDetectedCondition, metav1.ConditionTrue, true},
	{DeliveriesLostCondition, metav1.ConditionTrue, false},
}

// problemOf is the first thing that is wrong with an object, from its conditions, on one line.
func problemOf(o subject) string {
	for _, t := range troubles {
		if c := meta.FindStatusCondition(*o.Conditions(), t.condition); c != nil && c.Status == t.when {
			return inLine(c.Message)
		}
	}
	if r, ok := o.(*v1.Receiver); ok {
		return inLine(receiverProblem(r))
	}
	return ""
}

// receiverProblem is what is wrong with a Receiver that serves.
func receiverProblem(r *v1.Receiver) string {
	subject := "webhook"
	if r.Spec.Type == v1.EventReceiver {
		subject = "event"
	}
	if r.Spec.Suspend {
		return "spec.suspend is set: no " + subject + " triggers; unset it to go on"
	}
	d := r.Status.Deliveries
	if d == nil || d.LastError == nil || d.Last != nil && !d.Last.Time.Before(&d.LastError.Time) {
		return ""
	}
	problem := "the last " + subject + " was not accepted: " + d.LastError.Reason
	if advice := webhookAdvice[d.LastError.Result]; advice != "" {
		problem += "; " + advice
	}
	return problem
}

// webhookAdvice says what to do about a webhook that was not accepted, by its result.
var webhookAdvice = map[string]string{
	"unauthentic": "compare the sender's secret with the key \"token\" of the Secret",
	"event":       "add it to spec.events, or have the sender leave it out",
	"payload":     "see which format the sender has to be set to",
	"too_large":   "have the sender leave something out",
	"filter":      "correct the filter, which read what is not there",
}

// inLine makes a message one line of a table.
func inLine(message string) string {
	return cut(strings.Join(strings.Fields(message), " "), maxProblem)
}

func providerDetailed(p *v1beta3.Provider) bool {
	return p.Status.LastDelivered != nil || p.Status.Waiting != 0 || p.Status.Problem != ""
}

// inSteps sets a time that is shown, unless that is less than a step after it: each is a write of status.
func inSteps(shown **metav1.Time, at time.Time) {
	if at.IsZero() || *shown != nil && at.Sub((*shown).Time) < matchedStep {
		return
	}
	now := inSeconds(at)
	*shown = &now
}

func alertDetailed(a *v1beta3.Alert) bool {
	return a.Status.LastMatched != nil || a.Status.LastSent != nil || a.Status.Problem != "" || a.Status.LastHandledReplay != ""
}

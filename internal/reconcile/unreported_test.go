package reconcile

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
)

// Fails when a condition that a former bus had the report of is shown for ever: notifier was moved to another NATS, or its volume was lost. Fails
// also when it ends before a new worker has had the time to report it again, or while there is a report.
func TestAConditionWithoutAReportEnds(t *testing.T) {
	troubled := func(r *v1.Receiver) {
		for condition, reason := range map[string]string{v1.WriteDeniedCondition: v1.ForbiddenReason, v1.LoopDetectedCondition: v1.EventLoopReason} {
			meta.SetStatusCondition(r.Conditions(), metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reason})
		}
	}
	s := settings{objects: []runtime.Object{newEventReceiver("lost", troubled), newEventReceiver("app", troubled)}}
	play(t, s, func(w *world) {
		w.feed.put("Receiver/team-a/app", weakDenied)
		w.feed.put("Loop/team-a/app", `{"uid":"uid-app","looping":true,"kind":"ImagePolicy","object":"app","pause":60000000000}`)
		want := func(when, receiver, denied, loop string) {
			t.Helper()
			for condition, want := range map[string]string{v1.WriteDeniedCondition: denied, v1.LoopDetectedCondition: loop} {
				if got, _ := w.condition("Receiver", receiver, condition); got != want {
					t.Errorf("%s: %s of %s is %q, want %q", when, condition, receiver, got, want)
				}
			}
		}
		pass(5 * time.Minute)
		want("at first", "lost", "True Forbidden", "True EventLoop")
		pass(10 * time.Minute)
		want("later", "lost", "False Succeeded", "False Succeeded")
		want("later", "app", "True Forbidden", "True EventLoop")
	})
}

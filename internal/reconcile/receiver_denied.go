package reconcile

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// recordDenied tells by an Event that a Receiver's writes are refused, or for another reason than its status said before: once for
// each change of the condition, whoever leads.
func (s *statusController[T, L]) recordDenied(before T) {
	if s.kind != v1.ReceiverKind {
		return
	}
	now, ok := s.health.denied(kube.KeyOf(before), before.GetUID())
	was := meta.FindStatusCondition(*before.Conditions(), v1.WriteDeniedCondition)
	if !ok || was != nil && was.Status == now.Status && was.Reason == now.Reason && was.Message == now.Message {
		return
	}
	s.events.Event(s.kind, before.GetNamespace(), before.GetName(), string(before.GetUID()), corev1.EventTypeWarning, now.Reason, now.Message)
}

// denied returns the condition of a Receiver whose writes are refused.
func (t *healthTable) denied(k kube.Key, uid types.UID) (metav1.Condition, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, ok := t.reports[v1.ReceiverKind+"/"+k.Namespace+"/"+k.Name]
	return r.condition, ok && !r.closing && r.uid == string(uid)
}

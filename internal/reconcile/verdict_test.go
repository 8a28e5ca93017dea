package reconcile

import (
	"testing"
	"unsafe"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// Fails when every object has its own copy of an equal ruling, or when get returns another verdict than was put.
func TestEqualVerdictsAreKeptOnce(t *testing.T) {
	changes := 0
	kept := newVerdicts(func(kube.Key) { changes++ })
	a, b := newAlert("a"), newAlert("b")
	a.UID, b.UID = "1", "2"
	for i, o := range []kube.Object{a, b} {
		v := served(o, v1.SucceededReason, string([]byte("Alert initialized")))
		kept.put(o, v)
		if kept.put(o, v); changes != i+1 {
			t.Errorf("%s: only the first of two equal verdicts is another than before", o.GetName())
		}
		if got, ok := kept.get(kube.KeyOf(o)); !ok || got != v {
			t.Errorf("%s: got %+v, want %+v", o.GetName(), got, v)
		}
	}
	one, _ := kept.get(kube.KeyOf(a))
	other, _ := kept.get(kube.KeyOf(b))
	if unsafe.StringData(one.message) != unsafe.StringData(other.message) {
		t.Error("the message is kept twice")
	}
	if kept.put(a, refused(a, fault{reason: v1.InvalidConfigReason})); changes != 3 {
		t.Error("another ruling is taken for the same")
	}
}

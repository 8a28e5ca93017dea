package kube

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
)

// copied returns a copy of s in memory of its own, as a decoder makes it.
func copied(s string) string { return string([]byte(s)) }

// Fails when each of a cluster's thousands of objects keeps its own copy of common texts, or the spare capacity that a decoder left.
func TestObjectsThatSayTheSameShareIt(t *testing.T) {
	objects := make([]*v1.Alert, 2)
	for i := range objects {
		conditions := make([]metav1.Condition, 1, 4)
		conditions[0] = metav1.Condition{
			Type: copied(v1.ServingCondition), Status: metav1.ConditionStatus(copied("True")), Reason: copied(v1.SucceededReason),
			Message: copied("Alert initialized"),
		}
		a := &v1.Alert{
			TypeMeta: metav1.TypeMeta{Kind: copied("Alert"), APIVersion: copied("notification.toolkit.fluxcd.io/v1")},
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"app.kubernetes.io/part-of": "tenants"},
				Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"},
			},
			Spec: v1.AlertSpec{
				ProviderRef: v1.LocalObjectReference{Name: copied("chat")}, EventSeverity: copied("info"),
				EventSources: []v1.CrossNamespaceObjectReference{{Kind: copied("Kustomization"), Name: copied("*")}},
			},
		}
		a.Status.Conditions, a.Status.Problem = conditions, copied("nothing matches")
		trimObject(a)
		objects[i] = a
	}
	one, other := texts(objects[0]), texts(objects[1])
	for i := range one {
		if one[i] != other[i] || unsafe.StringData(one[i]) != unsafe.StringData(other[i]) {
			t.Errorf("%q is kept twice", one[i])
		}
	}
	if a, b := objects[0].Labels, objects[1].Labels; len(a) != 1 || reflect.ValueOf(a).Pointer() != reflect.ValueOf(b).Pointer() {
		t.Errorf("labels %v and %v are kept twice", a, b)
	}
	if a := objects[0]; cap(a.Status.Conditions) != 1 || a.Annotations != nil {
		t.Errorf("room for %d conditions is kept, and annotations %v", cap(a.Status.Conditions), a.Annotations)
	}
}

// Fails when each text that distinguishes an object is an object for the collector: there are four, and tens of thousands of objects.
func TestTheNamesOfAnObjectAreOneString(t *testing.T) {
	a := &v1.Alert{ObjectMeta: metav1.ObjectMeta{
		Namespace: copied("team-a"), Name: copied("chat"), UID: types.UID(copied("u")), ResourceVersion: copied("7"),
	}}
	trimObject(a)
	names := []string{a.Namespace, a.Name, string(a.UID), a.ResourceVersion}
	if want := []string{"team-a", "chat", "u", "7"}; !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	next := unsafe.Pointer(unsafe.StringData(a.Namespace))
	for _, name := range names {
		if unsafe.Pointer(unsafe.StringData(name)) != next {
			t.Errorf("%q is a string of its own", name)
		}
		next = unsafe.Add(next, len(name))
	}
}

func texts(a *v1.Alert) []string {
	c := a.Status.Conditions[0]
	return []string{
		a.Kind, a.APIVersion, a.Spec.ProviderRef.Name, a.Spec.EventSeverity, a.Spec.EventSources[0].Kind, a.Spec.EventSources[0].Name,
		a.Status.Problem, c.Type, string(c.Status), c.Reason, c.Message,
	}
}

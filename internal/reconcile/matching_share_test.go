package reconcile

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// slowObjects is a watchers' cache in which a look takes a second.
type slowObjects struct {
	watchedObjects
	looks *atomic.Int64
}

func (s slowObjects) Select(namespace string, t event.Target) (names []string, watched bool) {
	s.looks.Add(1)
	<-time.After(time.Second)
	return s.watchedObjects.Select(namespace, t)
}

// T6: a tenant has many Alerts with many sources in a namespace of many objects. Each change of their Provider has the status of all of them
// written. Fails when counting their objects takes all processors, or when they are not counted later.
func TestT6CountingTakesNoMoreThanItsShareOfAProcessor(t *testing.T) {
	var looks atomic.Int64
	s := settings{objects: []runtime.Object{newProvider("chat")}, change: func(o *Options) {
		o.Objects, o.Kinds = slowObjects{watchedObjects{"Kustomization": {"app"}}, &looks}, fluxKinds
	}}
	for i := range 20 {
		s.objects = append(s.objects, newAlert(fmt.Sprint("alert-", i)))
	}
	play(t, s, func(w *world) {
		pass(10 * time.Minute)
		before := looks.Load()
		for i := range 40 {
			w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Channel = fmt.Sprint(i) }))
		}
		if took := looks.Load() - before; took > 2+40*3/8 {
			t.Errorf("counting took %d s of two minutes", took)
		}
		pass(10 * time.Minute)
		for i := range 20 {
			if short, message := w.condition("Alert", fmt.Sprint("alert-", i), matchingCondition); short != "True ObjectsMatch" {
				t.Errorf("alert %d: %q %q", i, short, message)
			}
		}
	})
}

package apply

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// slowSelector takes a millisecond to compare an object with a selector.
type slowSelector struct {
	fakeSelector
	compared atomic.Int64
}

func (s *slowSelector) Selects(namespace string, target event.Target, name string) (selected, watched bool) {
	s.compared.Add(1)
	<-time.After(time.Millisecond)
	return s.fakeSelector.Selects(namespace, target, name)
}

// T6: a namespace has very many selectors and, of a Receiver that is gone, very many triggers: half a second of a processor for each. Fails when
// the searches for other Receivers that ask take more than their share of a processor, or all workers, or when one is not made in the end.
func TestT6TheSearchesOfANamespaceForOtherReceiversAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		selector := &slowSelector{fakeSelector: fakeSelector{}}
		w := newWorld(t, func(o *Options) { o.Selector = selector })
		defer w.stop()
		var targets []event.Target
		for i := range 512 {
			targets = append(targets, selecting("app", fmt.Sprint(i)))
		}
		w.receiver("team-a", "many", "deployer", targets...)
		gone := w.receiver("team-a", "gone", "deployer", repo("*"))
		other := w.receiver("team-b", "github", "deployer", repo("a"))
		w.receivers.remove("team-a", "gone")
		selector.compared.Store(0)
		var held []*fakeHold
		for i := range 40 {
			held = append(held, w.send(trigger(gone, repo(fmt.Sprint(i)))))
		}
		foreign := w.hook(other)
		pass(100 * time.Millisecond)
		w.want(foreign, "done")
		pass(16 * time.Second)
		if n := selector.compared.Load(); n < 512 || n > 5*1000 {
			t.Errorf("%d comparisons of a millisecond in 16 s, want a share of 2 s", n)
		}
		pass(20 * time.Minute)
		for _, h := range held {
			w.want(h, "done")
		}
	})
}

package limits

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifier/test/env"
)

// E6: fails when the first start publishes the states that it finds, when the last published state is kept in memory
// only, or when a start publishes a recorded state again. Fails in one run of a hundred or so when a start does not record a transition that
// was published as the process was killed; the tests of reconcile/watch always do.
func TestE6AMissedTransitionIsPublishedOnceAndTheFirstStartIsSilent(t *testing.T) {
	s := scoped(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Provider(s.Ctx, "all", "generic", sink.URL("/")))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "all", nil, `{"providerRef":{"name":"all"},"eventSources":[`+env.AnyKustomization+`,{"kind":"GitRepository","name":"*"}]}`))
	kinds := []string{"Kustomization", "GitRepository"}
	each := func(name string, ok bool, format string) (told []string) {
		for _, kind := range kinds {
			message := fmt.Sprintf(format, kind)
			s.Must(s.Tenant.SetReady(s.Ctx, kind, name, ok, "Reason", message, "main@sha1:"+message))
			told = append(told, message)
		}
		return told
	}
	for _, kind := range kinds {
		for _, name := range []string{"broken", "fine", "steady", "marker"} {
			s.Must(s.Tenant.Object(s.Ctx, kind, name, nil, ""))
		}
	}
	each("broken", false, "%s was broken before the first start")
	for _, name := range []string{"fine", "steady", "marker"} {
		each(name, true, "%s "+name+" was fine before the first start")
	}

	// The first start is silent: only later changes are published.
	s.startScoped(env.NotifierOptions{})
	for _, kind := range kinds {
		s.awaitMetric(1, "notifier_watch_kind_publishing", "kind", kind)
	}
	told := each("marker", false, "%s marker: first")
	s.waitTold(sink, told...)
	s.toldOnce(sink, told...)

	// A change during the absence is published once. A state that equals the last published one is not, though it
	// changed twice.
	s.Must(s.Stop())
	told = append(told, each("broken", true, "%s broken has recovered")...)
	told = append(told, each("fine", false, "%s fine has failed")...)
	each("steady", false, "%s steady has failed for a moment")
	each("steady", true, "%s steady was fine before the first start")
	s.Must(s.Restart(s.Ctx))
	s.waitTold(sink, told...)
	told = append(told, each("marker", true, "%s marker: second")...)
	s.waitTold(sink, told...)
	s.toldOnce(sink, told...)

	// Another restart, this time after a kill, publishes no recorded state.
	s.awaitMetric(6, "notifier_watch_transitions_total", "result", "published")
	s.awaitMetric(6, "notifier_deliveries_total", "outcome", "sent")
	s.Must(s.Kill())
	s.Must(s.Restart(s.Ctx))
	told = append(told, each("marker", false, "%s marker: third")...)
	s.waitTold(sink, told...)
	s.toldOnce(sink, told...)

	// A kill as soon as an event has arrived, maybe before it is recorded: the way back is published all the same.
	kinds = []string{"GitRepository"} // a success of the other would be held for 20 s
	s.waitTold(sink, each("marker", true, "%s marker: fourth")...)
	s.Must(s.Kill())
	back := each("marker", false, "%s marker: fifth")
	s.Must(s.Restart(s.Ctx))
	s.waitTold(sink, back...)
	last := each("steady", false, "%s steady: last")
	s.waitTold(sink, last...)
	if n := s.told(sink)[back[0]]; n != 1 {
		s.Errorf("%q was told %d times", back[0], n)
	}
}

// awaitMetric waits until the sum of a metric's samples with a label has a value.
func (s *fixture) awaitMetric(want float64, name, label, value string) {
	s.Helper()
	s.Must(env.Eventually(s.Within(45*time.Second), func(ctx context.Context) error {
		n, err := s.Metric(ctx, name, label, value)
		if err == nil && n != want {
			err = fmt.Errorf("%s{%s=%q} is %v, want %v", name, label, value, n, want)
		}
		return err
	}))
}

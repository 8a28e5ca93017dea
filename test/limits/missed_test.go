package limits

import (
	"fmt"
	"testing"

	"notifier/test/env"
)

// E6: fails when the first start publishes the states that it finds, when the last published state is kept in memory
// only, or when a start publishes a recorded state again.
func TestE6WhatWasMissedIsToldOnceAndTheFirstStartIsSilent(t *testing.T) {
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

	// Another restart, this time after a kill, publishes nothing.
	s.Must(s.Kill())
	s.Must(s.Restart(s.Ctx))
	told = append(told, each("marker", false, "%s marker: third")...)
	s.waitTold(sink, told...)
	s.toldOnce(sink, told...)
}

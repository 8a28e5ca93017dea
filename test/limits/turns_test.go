package limits

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
)

// T6: fails when another namespace's events wait until an event for very many Alerts, all over their quota, is routed.
func TestT6AnEventForManyAlertsOverTheirQuotaDelaysNoOtherTenant(t *testing.T) {
	const alerts = 200
	s := setUp(t)
	s.Start(env.NotifierOptions{Args: []string{"--namespace-quota=16"}})
	many, sink := s.Tenant, s.NewSink()
	s.Must(many.Object(s.Ctx, "Kustomization", "app", nil, ""))
	g, ctx := errgroup.WithContext(s.Ctx)
	g.SetLimit(16)
	for i := range alerts {
		g.Go(func() error {
			return many.Object(ctx, "Alert", fmt.Sprint("alert-", i), nil, `{"providerRef":{"name":"none"},"eventSources":[`+env.AnyKustomization+`]}`)
		})
	}
	s.Must(g.Wait())
	other := s.NewTenant()
	s.Must(other.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(other.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization)) // and so the other Alerts are compiled
	post := func(tenant *env.Tenant, message string) {
		s.PostEvent(tenant, "Kustomization", "app", "error", "BuildFailed", message, "main@sha1:"+message)
	}
	var slowest time.Duration
	for i := range 2 {
		for j := range 8 {
			post(many, fmt.Sprintf("of many %d.%d", i, j))
		}
		message, begin := fmt.Sprint("of the other ", i), time.Now()
		post(other, message)
		s.waitTold(sink, message)
		slowest = max(slowest, time.Since(begin))
	}
	t.Logf("the other namespace's slower of 2 took %s", slowest)
	if slowest > 3*time.Second {
		t.Error("it waited for the events of many Alerts")
	}
}

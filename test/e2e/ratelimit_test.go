package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// E2, E4: fails when spec.rateLimit of a Provider is ignored, or when errors wait behind the rest.
func TestOf100MessagesAtOnceErrorsComeFirst(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "all", nil,
		`{"type":"generic","secretRef":{"name":"all-address"},"rateLimit":{"perSecond":4,"burst":1}}`))
	s.Condition(s.Tenant, "Provider", "all", "Serving", metav1.ConditionTrue, "")
	s.observed("Provider", "all")
	const count, errors = 100, 5
	for i := range count {
		s.Must(s.Tenant.Object(s.Ctx, "Kustomization", fmt.Sprint("app-", i), nil, ""))
	}
	begin := time.Now()
	post := func(severity string, from, to int) {
		var posting errgroup.Group
		for i := from; i < to; i++ {
			name := fmt.Sprint("app-", i)
			posting.Go(func() error {
				e, err := s.Tenant.Event(s.Ctx, "Kustomization", name, severity, "Said", severity+" about "+name, "main@sha1:1")
				if err != nil {
					return err
				}
				if resp, err := s.Post(s.Ctx, e); err != nil || resp.Status != http.StatusAccepted {
					return fmt.Errorf("POST of an event: %d %w", resp.Status, err)
				}
				return nil
			})
		}
		s.Must(posting.Wait())
	}
	post("info", 0, count-errors)
	post("error", count-errors, count)
	before := len(sink.Received())
	if _, err := sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) >= count }); err != nil {
		t.Fatalf("%v: %d messages", err, len(sink.Received()))
	}
	took := time.Since(begin)
	last := 0
	for i, m := range messages(s, sink) {
		if strings.HasPrefix(m, "error") {
			last = i
		}
	}
	t.Logf("%d messages took %s, the last error was number %d, %d came before all were accepted", count, took.Round(time.Second), last, before)
	const underWay = 2 // when the last error is accepted
	if last > count/2 || last >= before+errors+underWay {
		t.Errorf("the last error was number %d, and %d came before all were accepted", last, before)
	}
	if took < 20*time.Second {
		t.Errorf("%d messages at 4 a second came within %s", count, took)
	}
}

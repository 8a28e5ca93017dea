package limits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// Fails when the cap is not enforced, when it is one off, when a younger Alert displaces an older one, or when a freed
// place is not given to the next Alert.
func TestAlertsBeyondTheirNumberSaySoAndTakeAFreePlace(t *testing.T) {
	s := scoped(t)
	s.startScoped(env.NotifierOptions{Args: []string{"--max-alerts-per-namespace", "3"}})
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Provider(s.Ctx, "sink", "generic", sink.URL("/")))
	alert := func(name string) {
		s.Must(s.Tenant.Object(s.Ctx, "Alert", name, nil,
			`{"providerRef":{"name":"sink"},"eventMetadata":{"alert":"`+name+`"},"eventSources":[`+env.AnyKustomization+`]}`))
	}
	for i := range 3 {
		alert(fmt.Sprintf("old-%d", i))
		s.ready("Alert", fmt.Sprintf("old-%d", i), metav1.ConditionTrue, "")
	}
	// Ages are whole seconds. Among Alerts of one second the name decides, which would order the young ones first.
	last := s.Read(s.Tenant, "Alert", "old-2")
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		if !time.Now().After(last.GetCreationTimestamp().Add(time.Second)) {
			return errors.New("still the same second")
		}
		return nil
	}))
	for i := range 2 {
		alert(fmt.Sprintf("a-young-%d", i))
		message := s.ready("Alert", fmt.Sprintf("a-young-%d", i), metav1.ConditionFalse, "LimitExceeded")
		if !strings.Contains(message, "3") {
			t.Errorf("the message does not name the limit: %s", message)
		}
	}
	s.accepted("three")
	s.waitTold(sink, "three")
	s.Must(s.Tenant.Delete(s.Ctx, "Alert", "old-1"))
	s.ready("Alert", "a-young-0", metav1.ConditionTrue, "")
	s.ready("Alert", "a-young-1", metav1.ConditionFalse, "LimitExceeded")
	s.accepted("and three more")
	s.waitTold(sink, "and three more")
	s.accepted("last")
	s.waitTold(sink, "last")
	for _, r := range sink.Received() {
		body := string(r.Body)
		if strings.Contains(body, "a-young-1") || strings.Contains(body, `"three"`) && strings.Contains(body, "a-young-0") {
			t.Errorf("an Alert beyond the limit was served: %s", body)
		}
	}
}

// E8. Fails when routing an event reads the Alerts of other namespaces: it then compares 302 sources an event, not 2.
func TestE8AnEventIsComparedWithTheAlertsOfItsNamespaceOnly(t *testing.T) {
	s := alone(t)
	const others, each, events = 3, 100, 20
	sink := s.NewSink()
	for range others {
		tenant, err := s.System.Tenant(s.Ctx, "crowd-")
		s.Must(err)
		s.Must(tenant.Alert(s.Ctx, "alert", "generic", sink.URL("/crowd"), env.AnyKustomization))
		for i := range each - 1 {
			s.Must(tenant.Object(s.Ctx, "Alert", fmt.Sprintf("alert-%d", i), nil,
				`{"providerRef":{"name":"alert"},"eventSources":[`+env.AnyKustomization+`]}`))
		}
		s.Condition(tenant, "Alert", fmt.Sprintf("alert-%d", each-2), "Serving", metav1.ConditionTrue, "")
	}
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	for _, name := range []string{"one", "two"} {
		s.Must(s.Tenant.Alert(s.Ctx, name, "generic", sink.URL("/own"), env.AnyKustomization))
		s.ready("Alert", name, metav1.ConditionTrue, "")
	}
	before, err := s.Metric(s.Ctx, "notifier_considered_total")
	s.Must(err)
	for i := range events {
		s.accepted(fmt.Sprintf("event-%d", i))
	}
	s.waitTold(sink, fmt.Sprintf("event-%d", events-1))
	after, err := s.Metric(s.Ctx, "notifier_considered_total")
	s.Must(err)
	t.Logf("%d events were compared with %.0f sources, beside %d Alerts of other namespaces", events, after-before, others*each)
	if after-before != 2*events {
		t.Errorf("compared with %.0f sources, want %d", after-before, 2*events)
	}
}

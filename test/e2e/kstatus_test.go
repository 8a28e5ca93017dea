package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

// healthRow is a state of an object of the three kinds that health checks read.
type healthRow struct {
	kind, spec string
	// before makes the objects that the object needs, and later makes a change; each may be nil. Both get the object's
	// name.
	before, later func(s *fixture, name string)
	// condition, conditionStatus and reason show that the state is reached.
	condition, reason string
	conditionStatus   metav1.ConditionStatus
	// want is kstatus's result then. An Alert and a Provider have it from the first moment on.
	want status.Status
}

// secretOf makes the Secret "<name>-secret".
func secretOf(data map[string]string) func(s *fixture, name string) {
	return func(s *fixture, name string) {
		s.Helper()
		s.Must(s.Tenant.Secret(s.Ctx, name+"-secret", data))
	}
}

// providerHealth returns the states of Providers. In specs "$NAME" is replaced by the object's name, and "$SINK" by a
// destination.
func providerHealth() map[string]healthRow {
	const current, yes, no = status.CurrentStatus, metav1.ConditionTrue, metav1.ConditionFalse
	const toSecret = `{"type":"generic","secretRef":{"name":"$NAME-secret"}}`
	return map[string]healthRow{
		"a Provider that is served": {
			kind: "Provider", spec: `{"type":"generic","address":"https://example.com"}`, condition: "Serving", conditionStatus: yes, want: current,
		},
		"a Provider of a type that is not built": {
			kind: "Provider", spec: `{"type":"carrier-pigeon","address":"https://pigeon.example"}`,
			condition: "Serving", conditionStatus: no, reason: "UnsupportedType", want: current,
		},
		"a Provider whose Secret is missing": {
			kind: "Provider", spec: toSecret, condition: "Serving", conditionStatus: no, reason: "SecretNotFound", want: current,
		},
		"a Provider whose Secret comes later": {
			kind: "Provider", spec: toSecret,
			later: func(s *fixture, name string) {
				s.Condition(s.Tenant, "Provider", name, "Serving", no, "SecretNotFound")
				secretOf(map[string]string{"address": "https://example.com"})(s, name)
			},
			condition: "Serving", conditionStatus: yes, want: current,
		},
		"a Provider whose Secret lacks the address": {
			kind: "Provider", spec: toSecret, before: secretOf(map[string]string{"token": "t"}),
			condition: "Serving", conditionStatus: no, reason: "InvalidConfig", want: current,
		},
		"a Provider with a reference that names no Secret": {
			kind: "Provider", spec: `{"type":"generic","secretRef":{"name":"Not A Name"}}`,
			condition: "Serving", conditionStatus: no, reason: "ValidationFailed", want: current,
		},
		"a Provider that is suspended": {
			kind: "Provider", spec: `{"type":"generic","address":"https://example.com","suspend":true}`,
			condition: "Serving", conditionStatus: no, reason: "Suspended", want: current,
		},
		"a Provider whose destination refuses": {
			kind: "Provider", spec: `{"type":"generic","address":"$SINK/refused"}`, later: sends,
			condition: "Delivering", conditionStatus: no, reason: "DeliveryFailed", want: current,
		},
		"a Provider whose destination is down": {
			kind: "Provider", spec: `{"type":"generic","address":"$SINK/down"}`, later: sends,
			condition: "Delivering", conditionStatus: no, want: current,
		},
		"a Provider that delivers": {
			kind: "Provider", spec: `{"type":"generic","address":"$SINK/fine"}`, later: sends,
			condition: "Delivering", conditionStatus: yes, want: current,
		},
		"a Provider that lost deliveries": {
			kind: "Provider", spec: `{"type":"generic","address":"$SINK/refused"}`, later: sends,
			condition: "DeliveriesLost", conditionStatus: yes, want: current,
		},
		"a Provider that is changed to a bad one": {
			kind: "Provider", spec: `{"type":"generic","address":"https://example.com"}`,
			later: func(s *fixture, name string) {
				s.Condition(s.Tenant, "Provider", name, "Serving", yes, "")
				s.Must(s.Tenant.Object(s.Ctx, "Provider", name, nil, `{"type":"generic","address":"ftp://example.com"}`))
			},
			condition: "Serving", conditionStatus: no, reason: "InvalidConfig", want: current,
		},
	}
}

// provider makes the Provider with the object's name.
func provider(spec string) func(s *fixture, name string) {
	return func(s *fixture, name string) {
		s.Helper()
		s.Must(s.Tenant.Object(s.Ctx, "Provider", name, nil, spec))
	}
}

// alertHealth returns the states of Alerts.
func alertHealth() map[string]healthRow {
	const current, yes, no = status.CurrentStatus, metav1.ConditionTrue, metav1.ConditionFalse
	alertOn := func(fields string) string { return alertSpec("$NAME", fields) }
	good, odd := provider(`{"type":"generic","address":"https://example.com"}`), provider(`{"type":"carrier-pigeon","address":"https://pigeon.example"}`)
	return map[string]healthRow{
		"an Alert that is served": {
			kind: "Alert", spec: alertOn(""), before: good, condition: "Serving", conditionStatus: yes, want: current,
		},
		"an Alert whose Provider is missing": {
			kind: "Alert", spec: alertOn(""), condition: "Serving", conditionStatus: no, reason: "ProviderNotFound", want: current,
		},
		"an Alert whose Provider comes later": {
			kind: "Alert", spec: alertOn(""),
			later: func(s *fixture, name string) {
				s.Condition(s.Tenant, "Alert", name, "Serving", no, "ProviderNotFound")
				good(s, name)
			},
			condition: "Serving", conditionStatus: yes, want: current,
		},
		"an Alert whose Provider is of a type that is not built": {
			kind: "Alert", spec: alertOn(""),
			before:    odd,
			condition: "Serving", conditionStatus: no, reason: "ProviderNotReady", want: current,
		},
		"an Alert whose Provider is suspended": {
			kind: "Alert", spec: alertOn(""),
			before:    provider(`{"type":"generic","address":"https://example.com","suspend":true}`),
			condition: "Serving", conditionStatus: no, reason: "Suspended", want: current,
		},
		"an Alert that is suspended": {
			kind: "Alert", spec: alertOn(`,"suspend":true`), before: good,
			condition: "Serving", conditionStatus: no, reason: "Suspended", want: current,
		},
		"an Alert with one bad pattern": {
			kind: "Alert", spec: alertOn(`,"inclusionList":["fine","("]`), before: good,
			condition: "Serving", conditionStatus: no, reason: "InvalidConfig", want: current,
		},
		"an Alert with a source in another namespace": {
			kind: "Alert", before: good,
			spec:      `{"providerRef":{"name":"$NAME"},"eventSources":[{"kind":"Kustomization","name":"*","namespace":"kube-system"}]}`,
			condition: "Serving", conditionStatus: no, reason: "CrossNamespaceDenied", want: current,
		},
		"an Alert that lost deliveries": {
			kind: "Alert", spec: alertOn(""),
			before: odd,
			later: func(s *fixture, name string) {
				s.Condition(s.Tenant, "Alert", name, "Serving", no, "")
				s.tell(name)
			},
			condition: "DeliveriesLost", conditionStatus: yes, want: current,
		},
	}
}

// receiverHealth returns the states of Receivers.
func receiverHealth() map[string]healthRow {
	const current, yes, no = status.CurrentStatus, metav1.ConditionTrue, metav1.ConditionFalse
	return map[string]healthRow{
		"a Receiver that is served": {
			kind: "Receiver", spec: receiverOn(""), before: secretOf(map[string]string{"token": "t"}),
			condition: "Ready", conditionStatus: yes, want: current,
		},
		"a Receiver whose Secret is missing": {
			kind: "Receiver", spec: receiverOn(""),
			condition: "Ready", conditionStatus: no, reason: "TokenNotFound", want: status.InProgressStatus,
		},
		"a Receiver whose Secret comes later": {
			kind: "Receiver", spec: receiverOn(""),
			later: func(s *fixture, name string) {
				s.Condition(s.Tenant, "Receiver", name, "Ready", no, "TokenNotFound")
				secretOf(map[string]string{"token": "t"})(s, name)
			},
			condition: "Ready", conditionStatus: yes, want: current,
		},
		"a Receiver whose Secret has no token": {
			kind: "Receiver", spec: receiverOn(""), before: secretOf(map[string]string{"password": "t"}),
			condition: "Ready", conditionStatus: no, reason: "TokenNotFound", want: status.InProgressStatus,
		},
		"a Receiver whose expression does not compile": {
			kind: "Receiver", spec: receiverOn(`,"resourceFilter":"res.metadata.name =="`), before: secretOf(map[string]string{"token": "t"}),
			condition: "Ready", conditionStatus: no, reason: "InvalidCELExpression", want: status.FailedStatus,
		},
		"a Receiver that is suspended": {
			kind: "Receiver", spec: receiverOn(`,"suspend":true`), before: secretOf(map[string]string{"token": "t"}),
			condition: "Ready", conditionStatus: yes, want: current,
		},
		"a Receiver that may not write": {
			kind: "Receiver", spec: receiverOn(`,"serviceAccountName":"weak"`),
			before: func(s *fixture, name string) {
				secretOf(map[string]string{"token": "t"})(s, name)
				weakAccount(s, name)
			},
			later: func(s *fixture, name string) {
				path := s.Path(s.Tenant, name)
				s.answered(path, "t", http.StatusOK)
			},
			condition: "WriteDenied", conditionStatus: yes, reason: "Forbidden", want: current,
		},
	}
}

// receiverOn returns the spec of a Receiver of type github for the GitRepository of its name.
func receiverOn(fields string) string {
	return `{"type":"github","secretRef":{"name":"$NAME-secret"},"resources":[{"kind":"GitRepository","name":"$NAME"}]` + fields + `}`
}

// sends makes an Alert and an event, so that a notification is sent to the Provider.
func sends(s *fixture, name string) {
	s.Helper()
	s.Must(s.Tenant.Object(s.Ctx, "Alert", name, nil, alertSpec(name, "")))
	s.Condition(s.Tenant, "Alert", name, "Serving", metav1.ConditionTrue, "")
	s.tell(name)
}

// tell POSTs a failure of the Kustomization of a name, which it makes as well.
func (s *fixture) tell(name string) {
	s.Helper()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", name, nil, ""))
	s.post(s.Tenant, name, "error", "BuildFailed", "broken", "main@sha1:"+name, http.StatusAccepted)
}

// With Flux, kstatus took an Alert and a Provider for current in any state, since these have no status there. So a
// Kustomization with wait: true that contains one was ready at once. Fails when one of them has another result for a
// moment, in any state, or when a Receiver's result differs from that with Flux.
func TestHealthChecksFindWhatTheyFoundWithFlux(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	sink.AnswerWith(func(r env.Received) env.Answer {
		return env.Answer{Status: map[string]int{"/refused": http.StatusForbidden, "/down": http.StatusServiceUnavailable}[r.Path]}
	})
	all := map[string]healthRow{}
	for _, rows := range []map[string]healthRow{providerHealth(), alertHealth(), receiverHealth()} {
		maps.Copy(all, rows)
	}
	for name, row := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &fixture{s.Fixture.Under(t)}
			s.Tenant = s.NewTenant()
			const name = "object"
			if row.before != nil {
				row.before(s, name)
			}
			seen := s.healthOf(row.kind, name)
			spec := strings.NewReplacer("$NAME", name, "$SINK", sink.URL("")).Replace(row.spec)
			s.Must(s.Tenant.Object(s.Ctx, row.kind, name, nil, spec))
			if row.later != nil {
				row.later(s, name)
			}
			s.Condition(s.Tenant, row.kind, name, row.condition, row.conditionStatus, row.reason)
			obj := s.Read(s.Tenant, row.kind, name)
			s.Must(env.Eventually(s.Within(soon), func(context.Context) error { return seen(obj.GetResourceVersion(), row.want) }))
		})
	}
}

// healthOf follows kstatus's results for an object from its beginning on. The returned function checks the result for a
// version of it and, for an Alert and a Provider, that every result was current.
func (s *fixture) healthOf(kind, name string) func(version string, want status.Status) error {
	s.Helper()
	w, err := s.Tenant.Dynamic.Resource(env.Kinds[kind]).Namespace(s.Tenant.Namespace).Watch(s.Ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: "",
	})
	s.Must(err)
	s.Cleanup(w.Stop)
	var mu sync.Mutex
	at := map[string]*status.Result{}
	var failed error
	go func() {
		for e := range w.ResultChan() {
			obj, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			result, err := status.Compute(obj)
			mu.Lock()
			if err == nil && kind != "Receiver" && result.Status != status.CurrentStatus {
				text, _ := json.Marshal(obj.Object["status"])
				err = fmt.Errorf("was %s (%s) with status %s", result.Status, result.Message, text)
			}
			if err != nil && failed == nil {
				failed = err
			}
			at[obj.GetResourceVersion()] = result
			mu.Unlock()
		}
	}()
	return func(version string, want status.Status) error {
		mu.Lock()
		defer mu.Unlock()
		result := at[version]
		switch {
		case failed != nil:
			return failed
		case result == nil:
			return fmt.Errorf("version %s was not seen", version)
		case result.Status != want:
			return fmt.Errorf("is %s (%s), want %s", result.Status, result.Message, want)
		}
		return nil
	}
}

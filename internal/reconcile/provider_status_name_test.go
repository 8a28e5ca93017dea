package reconcile

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// statusProvider returns a Provider that names commit statuses by an expression.
func statusProvider(expr string) *v1.Provider {
	return newProvider("chat", func(p *v1.Provider) {
		p.UID = "0c9c2e41-d2f9-4f9b-9c41-bebc1984d67a"
		p.Spec = v1.ProviderSpec{Type: "github", Address: "https://github.com/o/r", CommitStatusExpr: expr, SecretRef: ref("token")}
		p.Status.Problem = "hush"
	})
}

// named evaluates an expression for an event about the Kustomization apps that the Alert on-call matched.
func named(t *testing.T, expr string, alerts ...*v1.Alert) (string, error) {
	t.Helper()
	c := &providerController{
		alert: func(k kube.Key) (*v1.Alert, bool) {
			for _, a := range alerts {
				if kube.KeyOf(a) == k {
					return a, true
				}
			}
			return nil, false
		},
	}
	p := statusProvider(expr)
	name, f := c.statusName(p)
	if f != nil {
		t.Fatalf("%s: %s", expr, f.message)
	}
	return name(t.Context(), provider.Notification{
		Alert: "on-call", Event: event.Event{
			InvolvedObject: event.ObjectReference{Kind: "Kustomization", Namespace: "team-a", Name: "apps", APIVersion: "kustomize.toolkit.fluxcd.io/v1"},
			Severity:       "error", Reason: "HealthCheckFailed", Timestamp: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
			Metadata: map[string]string{"environment": "production", "secret": "hush"},
		},
	})
}

// Fails when one of the three objects lacks a field that Flux passes to an expression, or when one of Flux's functions is missing.
func TestACommitStatusIsNamedByTheProvidersExpression(t *testing.T) {
	alert := newAlert("on-call", func(a *v1.Alert) { a.Labels = map[string]string{"team": "web"} })
	for expr, want := range map[string]string{
		`event.involvedObject.kind + '/' + event.involvedObject.name + '/' + event.metadata.environment + '/' + provider.metadata.uid`:                            "Kustomization/apps/production/0c9c2e41-d2f9-4f9b-9c41-bebc1984d67a",
		`event.involvedObject.kind + '/' + event.involvedObject.name + '/' + event.metadata.environment + '/' + provider.metadata.uid.split('-').first().value()`: "Kustomization/apps/production/0c9c2e41",
		`event.involvedObject.name + '/' + alert.metadata.name + '/' + alert.metadata.namespace + '/' + alert.metadata.labels.team`:                               "apps/on-call/team-a/web",
		`alert.spec.providerRef.name + ' ' + provider.spec.type + ' ' + provider.metadata.name + ' ' + provider.spec.address`:                                     "chat github chat https://github.com/o/r",
		`event.severity + ' ' + event.reason + ' ' + event.timestamp + ' ' + event.involvedObject.apiVersion`:                                                     "error HealthCheckFailed 2026-03-04T05:06:07Z kustomize.toolkit.fluxcd.io/v1",
		`has(provider.status) || has(alert.status) ? 'status' : 'none'`:                                                                                           "none",
		`string(event.metadata[?'absent'].orValue('x')).upperAscii()`:                                                                                             "X",
	} {
		if got, err := named(t, expr, alert); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", expr, got, err, want)
		}
	}
}

// Fails when an expression that reads only the Alert's name has another result for a deleted Alert.
func TestAnAlertThatIsGoneHasItsName(t *testing.T) {
	if got, err := named(t, `alert.metadata.namespace + '/' + alert.metadata.name`); err != nil || got != "team-a/on-call" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := named(t, `alert.metadata.namespace + '/' + alert.spec.summary`); event.AsError(err).Class != event.Permanent {
		t.Errorf("what is gone with it: %v", err)
	}
}

// Fails when the notification of a failing expression is retried for a day, or when its error quotes the input.
func TestAnExpressionThatFailsIsFinalAndSaysWhy(t *testing.T) {
	for expr, want := range map[string]string{
		`'x' + event.metadata.absent`: "spec.commitStatusExpr reads a key that is not there: test it with has()",
		`'x' + event.metadata`:        "spec.commitStatusExpr applies a function to a value of another type",
		`[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(a, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(b, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(c, ` +
			`[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(d, event.metadata.secret + 'x')))).size() == 1 ? 'a' : 'b'`: "spec.commitStatusExpr takes more work than an expression may",
	} {
		_, err := named(t, expr)
		if got := event.AsError(err); got.Class != event.Permanent || got.Reason != want || got.Label != provider.LabelPayload {
			t.Errorf("%s: got %+v, want %q", expr, got, want)
		}
	}
}

// Fails when a Provider with an invalid expression is served under another name, or when the condition does not name the field.
func TestAnExpressionThatDoesNotCompileIsNamedOnTheProvider(t *testing.T) {
	s := settings{objects: []runtime.Object{statusProvider("'x'")}}
	s.secrets = append(s.secrets, newSecret("token", "token", "hush"))
	play(t, s, func(w *world) {
		w.ready("Provider", "chat", "True Succeeded")
		for _, expr := range []string{`event.involvedObject.kind == 'Kustomization'`, `event.`, `object.x + ''`, `event.metadata.a`, strings.Repeat("'x' + ", 1000) + "'x'"} {
			w.apply("Provider", statusProvider(expr))
			message := w.ready("Provider", "chat", "False InvalidCELExpression")
			if !strings.Contains(message, "spec.commitStatusExpr: ") || strings.Contains(message, "hush") {
				t.Errorf("%.40s: %q", expr, message)
			}
			if d := w.options.Destinations.Get("team-a", "chat"); d.Sender != nil {
				t.Errorf("%.40s: the Provider is served", expr)
			}
		}
		w.apply("Provider", statusProvider("event.involvedObject.name + '/x'"))
		w.ready("Provider", "chat", "True Succeeded")
	})
}

// Fails when an expression goes on reading the labels that the Provider had when its spec was last changed.
func TestANewLabelOfAProviderReachesItsExpression(t *testing.T) {
	s := settings{objects: []runtime.Object{statusProvider("provider.metadata.labels.cluster")}}
	s.secrets = append(s.secrets, newSecret("token", "token", "hush"))
	play(t, s, func(w *world) {
		before := w.options.Destinations.Get("team-a", "chat")
		live := w.live("Provider", "chat").DeepCopyObject().(*v1.Provider)
		live.Labels = map[string]string{"cluster": "blue"}
		if err := w.cluster.Tracker.Update(resources["Provider"], live, "team-a"); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if w.options.Destinations.Get("team-a", "chat") == before {
			t.Error("the sender is still the one that was made before the label")
		}
	})
}

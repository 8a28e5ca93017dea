package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// quiet is how long a test waits for further requests: the watchers wait 5s for a controller's own event before they
// publish a transition.
const quiet = 8 * time.Second

// received returns the decoded Flux events at a generic destination.
func received(s *fixture, sink *env.Sink) []map[string]any {
	s.Helper()
	var events []map[string]any
	for _, r := range sink.Received() {
		var e map[string]any
		s.Must(json.Unmarshal(r.Body, &e))
		events = append(events, e)
	}
	return events
}

func messages(s *fixture, sink *env.Sink) []string {
	s.Helper()
	var all []string
	for _, e := range received(s, sink) {
		all = append(all, fmt.Sprint(e["message"]))
	}
	return all
}

// waitMessages waits until the sink has got the messages, each at least once.
func (s *fixture) waitMessages(sink *env.Sink, want ...string) {
	s.Helper()
	_, err := sink.Wait(s.Within(time.Minute), func(all []env.Received) bool {
		for _, w := range want {
			found := false
			for _, r := range all {
				found = found || strings.Contains(string(r.Body), w)
			}
			if !found {
				return false
			}
		}
		return true
	})
	if err != nil {
		s.Fatalf("waiting for %q: %v; got %q", want, err, messages(s, sink))
	}
}

// post POSTs an event about a Kustomization of the tenant as its controller would and checks the answer.
func (s *fixture) post(t *env.Tenant, name, severity, reason, message, revision string, status int) env.Response {
	s.Helper()
	event, err := t.Event(s.Ctx, "Kustomization", name, severity, reason, message, revision)
	s.Must(err)
	resp, err := s.Post(s.Ctx, event)
	s.Must(err)
	if resp.Status != status {
		s.Fatalf("POST of an event: got %d %q, want %d", resp.Status, resp.Body, status)
	}
	return resp
}

// kustomization makes a Kustomization that is ready, and waits until the sink has that event.
func (s *fixture) kustomization(t *env.Tenant, name string, sink *env.Sink) {
	s.Helper()
	s.Must(t.Object(s.Ctx, "Kustomization", name, nil, ""))
	s.firstState(t, name, sink)
}

// firstState makes a Kustomization ready, as its controller writes and then POSTs it, and waits until the sink has that
// event.
func (s *fixture) firstState(t *env.Tenant, name string, sink *env.Sink) {
	s.Helper()
	message := "first state of " + name
	s.Must(t.SetReady(s.Ctx, "Kustomization", name, true, "ReconciliationSucceeded", message, "main@sha1:1"))
	s.post(t, name, "info", "ReconciliationSucceeded", message, "main@sha1:1", http.StatusAccepted)
	s.waitMessages(sink, message)
}

// E1: fails when the route table is not keyed by namespace, or when a source of another namespace is compiled.
func TestE1AnAlertSeesOnlyItsOwnNamespace(t *testing.T) {
	s := setUp(t)
	other := s.NewTenant()
	mine, theirs := s.NewSink(), s.NewSink()
	s.Must(other.Alert(s.Ctx, "all", "generic", theirs.URL("/"), env.AnyKustomization))
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(other.Object(s.Ctx, "Kustomization", "app", nil, ""))

	// One source names the other tenant's namespace: it is refused, visibly, and the Alert's own source works.
	s.Must(s.Tenant.Secret(s.Ctx, "spy-address", map[string]string{"address": mine.URL("/")}))
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "spy", nil, `{"type":"generic","secretRef":{"name":"spy-address"}}`))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "spy", nil, `{"providerRef":{"name":"spy"},"eventSources":[
		{"kind":"Kustomization","name":"*","namespace":"`+other.Namespace+`"},{"kind":"Kustomization","name":"*"}]}`))
	s.Condition(s.Tenant, "Alert", "spy", "Serving", metav1.ConditionFalse, "CrossNamespaceDenied")

	s.post(other, "app", "error", "BuildFailed", "the other tenant's secret plans", "main@sha1:2", http.StatusAccepted)
	s.post(s.Tenant, "app", "error", "BuildFailed", "my own failure", "main@sha1:2", http.StatusAccepted)
	s.waitMessages(theirs, "secret plans")
	s.waitMessages(mine, "my own failure")
	for _, m := range messages(s, mine) {
		if strings.Contains(m, "secret plans") {
			t.Errorf("an Alert was sent an event of another namespace: %q", m)
		}
	}
	for _, m := range messages(s, theirs) {
		if strings.Contains(m, "my own") {
			t.Errorf("an Alert was sent an event of another namespace: %q", m)
		}
	}
}

// E4: fails when a delivery whose predecessor waits for its retry is sent at once.
func TestE4OneObjectsEventsArriveInOrderThoughTheFirstFails(t *testing.T) {
	s := setUp(t)
	sink := s.AlertedSink()
	sink.AnswerWith(func(r env.Received) env.Answer {
		if strings.Contains(string(r.Body), "step 0") && len(sink.Received()) < 3 {
			return env.Answer{Status: http.StatusServiceUnavailable}
		}
		return env.Answer{}
	})
	var want []string
	for i := range 5 {
		message := fmt.Sprintf("step %d", i)
		want = append(want, message)
		s.post(s.Tenant, "app", "info", "ReconciliationSucceeded", message, fmt.Sprintf("main@sha1:%d", i), http.StatusAccepted)
	}
	s.waitMessages(sink, want...)
	var got []string
	for _, r := range sink.Received() {
		var e struct{ Message string }
		s.Must(json.Unmarshal(r.Body, &e))
		if r.Status/100 == 2 && strings.HasPrefix(e.Message, "step") {
			got = append(got, e.Message)
		}
	}
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("arrived as %v, want %v", got, want)
	}
}

// E5: fails when one worker sends for several Providers.
func TestE5ADestinationThatHangsDelaysOnlyItself(t *testing.T) {
	s := setUp(t)
	bad, good := s.NewSink(), s.NewSink()
	bad.Answer(env.Answer{Hang: true})
	s.Must(s.Tenant.Alert(s.Ctx, "bad", "generic", bad.URL("/"), env.AnyKustomization))
	s.Must(s.Tenant.Alert(s.Ctx, "good", "generic", good.URL("/"), env.AnyKustomization))
	for i := range 30 {
		name := fmt.Sprintf("app-%d", i)
		s.Must(s.Tenant.Object(s.Ctx, "Kustomization", name, nil, ""))
		begin := time.Now()
		s.post(s.Tenant, name, "error", "BuildFailed", "failure of "+name+".", "main@sha1:2", http.StatusAccepted)
		s.waitMessages(good, "failure of "+name+".")
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("event %d took %s beside a destination that hangs", i, d)
		}
	}
}

// E7: fails when an error text with the address reaches a log, a condition, an Event or a metric.
func TestE7NoSecretLeaves(t *testing.T) {
	s := setUp(t)
	const mark = "s3cr3t-mark"
	sink := s.NewSink()
	sink.Answer(env.Answer{Status: http.StatusForbidden, Body: mark + "-answer"})
	down := s.NewSink()
	s.Must(down.Down())
	for name, address := range map[string]string{
		"refused": sink.URL("/" + mark + "-path?sig=" + mark), "down": down.URL("/" + mark),
	} {
		s.Must(s.Tenant.Secret(s.Ctx, name, map[string]string{"address": address, "token": mark + "-token", "headers": "X-Key: " + mark + "-header\n"}))
		s.Must(s.Tenant.Object(s.Ctx, "Provider", name, nil, `{"type":"generic","secretRef":{"name":"`+name+`"}}`))
		s.Must(s.Tenant.Object(s.Ctx, "Alert", name, nil, `{"providerRef":{"name":"`+name+`"},"eventSources":[`+env.AnyKustomization+`]}`))
		s.Condition(s.Tenant, "Alert", name, "Serving", metav1.ConditionTrue, "")
	}
	for name, address := range map[string]string{"bad-url": "http://[" + mark, "bad-scheme": "ftp://" + mark + "/x", "denied": "http://169.254.169.254/" + mark} {
		s.Must(s.Tenant.Secret(s.Ctx, name, map[string]string{"address": address, "token": mark}))
		s.Must(s.Tenant.Object(s.Ctx, "Provider", name, nil, `{"type":"slack","secretRef":{"name":"`+name+`"}}`))
		s.Must(s.Tenant.Object(s.Ctx, "Alert", name, nil, `{"providerRef":{"name":"`+name+`"},"eventSources":[`+env.AnyKustomization+`]}`))
	}
	path := s.Receiver(s.Tenant, "app", mark+"-webhook-token", "")
	resp, err := s.GitHub(s.Ctx, path, "wrong", "push", env.GitHubPush)
	s.Must(err)
	s.Push(path, mark+"-webhook-token", http.StatusOK)

	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.post(s.Tenant, "app", "error", "BuildFailed", "it failed", "main@sha1:2", http.StatusAccepted)
	_, err = sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) > 0 })
	s.Must(err)
	s.Must(env.Eventually(s.Within(time.Minute), func(context.Context) error { return s.hasEvent("Alert", "refused", "NotificationDispatchFailed") }))
	s.Must(env.Eventually(s.Within(time.Minute), func(context.Context) error { return s.hasEvent("Alert", "down", "NotificationDispatchFailed") }))

	outputs := map[string]string{"the answer to a webhook": resp.Body, "the log": s.Logs()}
	metrics, err := s.Do(s.Ctx, http.MethodGet, s.MetricsURL+"/metrics", nil, nil)
	s.Must(err)
	outputs["metrics"] = metrics.Body
	for _, kind := range []string{"Receiver", "Alert", "Provider"} {
		list, err := s.Tenant.Dynamic.Resource(env.Kinds[kind]).Namespace(s.Tenant.Namespace).List(s.Ctx, metav1.ListOptions{})
		s.Must(err)
		text, err := json.Marshal(list)
		s.Must(err)
		outputs[kind+"s"] = string(text)
	}
	events, err := s.Tenant.Client.CoreV1().Events(s.Tenant.Namespace).List(s.Ctx, metav1.ListOptions{})
	s.Must(err)
	text, err := json.Marshal(events)
	s.Must(err)
	outputs["Kubernetes Events"] = string(text)
	for where, out := range outputs {
		if i := strings.Index(out, mark); i >= 0 {
			t.Errorf("%s hold a secret: …%s…", where, out[max(0, i-120):min(len(out), i+60)])
		}
	}
	// The path is a credential as well: only the Receiver and its Ready message, from which users copy it, contain it.
	for _, where := range []string{"the log", "metrics"} {
		if strings.Contains(outputs[where], path) {
			t.Errorf("%s hold a hook path", where)
		}
	}
}

// E9: fails when a POST ends a transition without a check of the UID, or when it makes the genuine POST a duplicate.
// Fails also when it gets the labels of an object whose UID it does not have.
func TestE9AForgedUIDSilencesNothing(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), `{"kind":"Kustomization","name":"*","matchLabels":{"team":"a"}}`))
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", map[string]string{"team": "a"}, ""))
	s.firstState(s.Tenant, "app", sink)

	forged, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "the genuine failure", "main@sha1:2")
	s.Must(err)
	forged["involvedObject"].(map[string]any)["uid"] = "forged"
	resp, err := s.Post(s.Ctx, forged)
	s.Must(err)
	if resp.Status != http.StatusAccepted {
		t.Fatalf("POST: got %d", resp.Status)
	}
	s.Must(s.Tenant.SetReady(s.Ctx, "Kustomization", "app", false, "BuildFailed", "the genuine failure", "main@sha1:2"))
	// The forged POST matched no object, so it has no labels and matches no Alert; the watcher publishes the transition.
	s.waitMessages(sink, "the genuine failure")
	for _, e := range received(s, sink) {
		if object, ok := e["involvedObject"].(map[string]any); !ok || object["uid"] == "forged" {
			t.Errorf("an event that forges its UID got the labels of the object: %v", e)
		}
	}
	// Nor did the forgery replace the genuine POST in the stream's duplicate detection.
	s.post(s.Tenant, "app", "error", "BuildFailed", "the genuine failure", "main@sha1:2", http.StatusAccepted)
}

// A transition is found by a POST and by a watcher, in either order: it is published once. Fails when notes do not end
// transitions.
func TestATransitionThatComesBothWaysIsPublishedOnce(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	s.kustomization(s.Tenant, "post-first", sink)
	s.kustomization(s.Tenant, "status-first", sink)
	sink.Forget()

	s.post(s.Tenant, "post-first", "error", "BuildFailed", "failed: post-first", "main@sha1:2", http.StatusAccepted)
	s.Must(s.Tenant.SetReady(s.Ctx, "Kustomization", "post-first", false, "BuildFailed", "failed: post-first", "main@sha1:2"))
	s.Must(s.Tenant.SetReady(s.Ctx, "Kustomization", "status-first", false, "BuildFailed", "failed: status-first", "main@sha1:2"))
	s.post(s.Tenant, "status-first", "error", "BuildFailed", "failed: status-first", "main@sha1:2", http.StatusAccepted)

	s.waitMessages(sink, "failed: post-first", "failed: status-first")
	s.stillOnly(sink, 2)
}

// A flap at one revision is published each time, even with the same words. Fails when the POST about the second failure
// is a duplicate of that about the first.
func TestAFlapAtOneRevisionIsPublishedEachTime(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	s.kustomization(s.Tenant, "app", sink)
	sink.Forget()
	flap := func(ok bool, severity, reason, message string) {
		s.Must(s.Tenant.SetReady(s.Ctx, "Kustomization", "app", ok, reason, message, "main@sha1:2"))
		s.post(s.Tenant, "app", severity, reason, message, "main@sha1:2", http.StatusAccepted)
	}
	flap(false, "error", "HealthCheckFailed", "it is broken")
	s.waitMessages(sink, "it is broken")
	flap(true, "info", "ReconciliationSucceeded", "it works")
	s.waitMessages(sink, "it works")
	flap(false, "error", "HealthCheckFailed", "it is broken")
	_, err := sink.Wait(s.Within(30*time.Second), func(all []env.Received) bool { return len(all) >= 3 })
	if err != nil {
		t.Fatalf("the third transition was not told: %v; got %q", err, messages(s, sink))
	}
	s.stillOnly(sink, 3)
}

// stillOnly fails the test when the sink has, or within the quiet time gets, another number of requests.
func (s *fixture) stillOnly(sink *env.Sink, count int) {
	s.Helper()
	more, err := sink.Wait(s.Within(quiet), func(all []env.Received) bool { return len(all) > count })
	if err == nil {
		s.Errorf("got %d notifications, want %d: %q", len(more), count, messages(s, sink))
	} else if got := sink.Count(); got != count {
		s.Errorf("got %d notifications, want %d: %q", got, count, messages(s, sink))
	}
}

// E9: a sender that knows an object's UID can report a failure in words that an Alert excludes. Fails when a POST ends a
// transition without a check of the object's own state. An empty matchLabels selects all existing objects, also one
// without labels: fails when the events endpoint or the watcher takes it for unknown.
func TestE9AForgedFailureThatAlertsLeaveOutSilencesNothing(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Provider(s.Ctx, "all", "generic", sink.URL("/")))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "all", nil, `{"providerRef":{"name":"all"},"exclusionList":["noise"],
		"eventSources":[{"kind":"Kustomization","name":"*","matchLabels":{}}]}`))
	s.Condition(s.Tenant, "Alert", "all", "Serving", metav1.ConditionTrue, "")
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.firstState(s.Tenant, "app", sink)

	s.post(s.Tenant, "app", "error", "BuildFailed", "noise", "main@sha1:2", http.StatusAccepted)
	s.Must(s.Tenant.SetReady(s.Ctx, "Kustomization", "app", false, "BuildFailed", "the genuine failure", "main@sha1:2"))
	s.waitMessages(sink, "the genuine failure")
}

package conformance

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/sender"
)

// The answers to a sender.
const (
	accepted  = `{"accepted":true}`
	duplicate = `{"accepted":true,"duplicate":true}`
	pinged    = `{"accepted":true,"ping":true}`
)

// reason returns the body of a refusal.
func reason(text string) string { return `{"reason":"` + text + `"}` }

// send sends a webhook and fails the test unless the answer has the status and the body.
func (s *fixture) send(what, path string, w sender.Webhook, status int, body string) {
	s.Helper()
	resp, err := s.Do(s.Ctx, http.MethodPost, s.HooksURL+path, w.Header, []byte(w.Body))
	s.Must(err)
	s.told(what, resp, status, body)
}

// sendChunked is send for a body without an announced size.
func (s *fixture) sendChunked(what, path string, w sender.Webhook, status int, body string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Ctx, http.MethodPost, s.HooksURL+path, io.MultiReader(strings.NewReader(w.Body)))
	s.Must(err)
	req.Header = w.Header
	resp, err := s.HTTP.Do(req)
	s.Must(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	s.Must(err)
	s.told(what, env.Response{Status: resp.StatusCode, Body: string(answer)}, status, body)
}

func (s *fixture) told(what string, got env.Response, status int, body string) {
	s.Helper()
	if got.Status != status || got.Body != body {
		s.Errorf("%s: got %d %s, want %d %s", what, got.Status, got.Body, status, body)
	}
}

// kinds are the kinds of the objects that the tests' Receivers name.
var kinds = []string{"GitRepository", "OCIRepository", "Kustomization"}

// asked returns the tenant's objects that ever got a reconcile request, as "<kind>/<name>", with the time of the last
// one.
func (s *fixture) asked() map[string]time.Time {
	s.Helper()
	all := map[string]time.Time{}
	for _, kind := range kinds {
		list, err := s.Tenant.Dynamic.Resource(env.Kinds[kind]).Namespace(s.Tenant.Namespace).List(s.Ctx, metav1.ListOptions{})
		s.Must(err)
		for _, obj := range list.Items {
			if text := obj.GetAnnotations()[env.RequestedAt]; text != "" {
				at, err := time.Parse(time.RFC3339Nano, text)
				s.Must(err)
				all[kind+"/"+obj.GetName()] = at
			}
		}
	}
	return all
}

// await waits until each of the objects has got a reconcile request since.
func (s *fixture) await(since time.Time, objects ...string) {
	s.Helper()
	for _, object := range objects {
		kind, name, _ := strings.Cut(object, "/")
		s.Requested(s.Tenant, kind, name, since)
	}
}

// marker is an object that only its own Receiver triggers.
const marker = "OCIRepository/marker"

const markerManifests = `
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"marker","namespace":"$NS"},"stringData":{"token":"marker-token"}}
---
{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"OCIRepository","metadata":{"name":"marker","namespace":"$NS"}}
---
{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"Receiver","metadata":{"name":"marker","namespace":"$NS"},"spec":{"type":"generic",
 "secretRef":{"name":"marker"},"resources":[{"kind":"OCIRepository","name":"marker"}]}}
---
`

// settled returns asked, less the marker, when every earlier trigger has been applied. The marker's own trigger, later
// on the same bus and in the same shard, shows that. It needs markerManifests.
func (s *fixture) settled() map[string]time.Time {
	s.Helper()
	sent := time.Now()
	s.send("the marker", env.HookPath("marker-token", "marker", s.Tenant.Namespace), sender.Generic("{}"), http.StatusOK, accepted)
	s.await(sent, marker)
	all := s.asked()
	delete(all, marker)
	return all
}

// ready waits until the Receiver is ready, checks that its path is Flux's, and returns it.
func (s *fixture) ready(name, token string) string {
	s.Helper()
	path := s.Path(s.Tenant, name)
	if want := env.HookPath(token, name, s.Tenant.Namespace); path != want {
		s.Fatalf("Receiver %s: the path is not Flux's", name)
	}
	return path
}

// receiver returns the manifest of a Receiver; fields is the rest of its spec.
func receiver(name, kind, fields string) string {
	return fmt.Sprintf(`{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"Receiver","metadata":{"name":%q,"namespace":"$NS"},
 "spec":{"type":%q,%s}}`+"\n---\n", name, kind, fields)
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"notifier/test/env"
)

// mustBeForbidden fails the test unless the config, impersonating as, is forbidden to update, delete and read the
// tenant's GitRepository "app". Without impersonation it must also be forbidden to patch it.
func (s *fixture) mustBeForbidden(cfg *rest.Config, as string) {
	s.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate.UserName = as
	client, err := dynamic.NewForConfig(cfg)
	s.Must(err)
	objects := client.Resource(env.Kinds["GitRepository"]).Namespace(s.Tenant.Namespace)
	obj := s.Read(s.Tenant, "GitRepository", "app")
	attempts := map[string]func() error{
		"update": func() error { _, err := objects.Update(s.Ctx, obj, metav1.UpdateOptions{}); return err },
		"delete": func() error { return objects.Delete(s.Ctx, "app", metav1.DeleteOptions{}) },
	}
	if !strings.HasPrefix(as, "system:serviceaccount:") {
		attempts["patch"] = func() error {
			_, err := objects.Patch(s.Ctx, "app", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}
	}
	for verb, attempt := range attempts {
		if err := attempt(); !apierrors.IsForbidden(err) {
			s.Errorf("%s as %q: got %v, want it to be forbidden", verb, as, err)
		}
	}
}

// watchRequests watches an object and returns a function that yields the stamps of the requests written since.
func (s *fixture) watchRequests(t *env.Tenant, kind, name string) func() []time.Time {
	s.Helper()
	obj := s.Read(t, kind, name)
	w, err := t.Dynamic.Resource(env.Kinds[kind]).Namespace(t.Namespace).Watch(s.Ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: obj.GetResourceVersion(),
	})
	s.Must(err)
	s.Cleanup(w.Stop)
	var mu sync.Mutex
	var stamps []time.Time
	go func() {
		for e := range w.ResultChan() {
			o, ok := e.Object.(metav1.Object)
			if !ok {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, o.GetAnnotations()[env.RequestedAt])
			mu.Lock()
			if err == nil && (len(stamps) == 0 || !stamps[len(stamps)-1].Equal(at)) {
				stamps = append(stamps, at)
			}
			mu.Unlock()
		}
	}()
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return append([]time.Time(nil), stamps...)
	}
}

// deliveries decodes the status.deliveries of a Receiver, nothing if it has none, and returns its text.
func (s *fixture) deliveries(t *env.Tenant, name string, into any) (raw string) {
	s.Helper()
	obj := s.Read(t, "Receiver", name)
	shown, _, err := unstructured.NestedMap(obj.Object, "status", "deliveries")
	s.Must(err)
	text, err := json.Marshal(shown)
	s.Must(err)
	s.Must(json.Unmarshal(text, into))
	return string(text)
}

// hasEvent returns nil if the tenant's object has a Kubernetes Event with the reason.
func (s *fixture) hasEvent(kind, name, reason string) error {
	events, err := s.Tenant.Client.CoreV1().Events(s.Tenant.Namespace).List(s.Ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s on %s %s among %d", reason, kind, name, len(events.Items))
}

// idle returns nil if the process serves no webhook at the moment.
func (s *fixture) idle(ctx context.Context) error {
	n, err := s.Metric(ctx, "notifier_webhooks_in_flight")
	if err == nil && n > 0 {
		err = fmt.Errorf("%v webhooks are in flight", n)
	}
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

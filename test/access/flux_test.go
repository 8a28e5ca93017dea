package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/crds"
	"notifier/test/env"
)

const account = "notification.toolkit.fluxcd.io/service-account"

// fluxDefinitions installs Flux's own definitions over ours and waits until the API server drops the fields that they
// lack.
func (s *fixture) fluxDefinitions() {
	s.Helper()
	definitions, err := crds.FluxNotification(s.Ctx)
	s.Must(err)
	_, err = s.System.Apply(s.Ctx, definitions)
	s.Must(err)
	s.Must(env.Eventually(s.Within(20*time.Second), func(ctx context.Context) error {
		obj, err := s.create(ctx, "probe", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if _, kept, _ := unstructured.NestedString(obj.Object, "spec", "serviceAccountName"); err == nil && kept {
			err = errors.New("the field is still kept")
		}
		return err
	}))
}

// create makes a Receiver of type generic for the GitRepository "app" that names its service account by field and by
// annotation.
func (s *fixture) create(ctx context.Context, name string, o metav1.CreateOptions) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver",
		"metadata": map[string]any{"name": name, "namespace": s.Tenant.Namespace, "annotations": map[string]any{account: "deployer"}},
		"spec": map[string]any{
			"type": "generic", "secretRef": map[string]any{"name": name + "-token"}, "serviceAccountName": "deployer",
			"resources": []any{map[string]any{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "name": "app"}},
		},
	}}
	created, err := s.System.Dynamic.Resource(env.Kinds["Receiver"]).Namespace(s.Tenant.Namespace).Create(ctx, obj, o)
	if created == nil {
		created = &unstructured.Unstructured{}
	}
	return created, err
}

// T2: fails when the annotation is not read, so that the account "default" writes with Flux's definition. Fails also
// when the process does not report, at its start, while it runs, and when it is corrected, that the cluster's
// definitions are not its own.
func TestFluxsDefinitionsOverOursAreReportedAndTheAnnotationNamesTheAccount(t *testing.T) {
	s := ofItsOwn(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "deployer"))
	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "deployer", []string{"patch"}, env.Patchable...))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "t"}))
	s.Start(env.NotifierOptions{Args: flags})
	s.said("[+] definitions")
	s.missing("Receiver", func(n float64) bool { return n == 0 })

	s.fluxDefinitions()
	says := []string{"receivers.notification.toolkit.fluxcd.io lacks", "spec.serviceAccountName", "alerts.notification.toolkit.fluxcd.io lacks status", "config/crd"}
	s.said("[~] definitions: ", says...)
	s.logged(says...)
	s.missing("Receiver", func(n float64) bool { return n > 0 })
	s.missing("Provider", func(n float64) bool { return n > 0 })

	audit, err := s.System.Audit()
	s.Must(err)
	obj, err := s.create(s.Ctx, "app", metav1.CreateOptions{})
	s.Must(err)
	if name, kept, _ := unstructured.NestedString(obj.Object, "spec", "serviceAccountName"); kept {
		t.Fatalf("the field is kept: %s", name)
	}
	path := s.Path(s.Tenant, "app")
	s.Trigger(path, "GitRepository", "app")
	write, err := audit.Wait(s.Ctx, func(e env.AuditEntry) bool {
		return e.Verb == "patch" && strings.HasSuffix(strings.Split(e.RequestURI, "?")[0], "/gitrepositories/app")
	})
	s.Must(err)
	if want := env.ServiceAccountUser(s.Tenant.Namespace, "deployer"); write.Impersonated() != want {
		t.Errorf("written as %q, want %q", write.Impersonated(), want)
	}

	// Flux's were there first: a start reports the same.
	s.Must(s.Stop())
	s.Must(s.Restart(s.Ctx))
	s.said("[~] definitions: ", says...)
	s.logged(says...)
	s.Must(s.System.Reinstall(s.Ctx))
	s.said("[+] definitions")
	s.logged("definitions are this version's now")
	s.missing("Receiver", func(n float64) bool { return n == 0 })
}

// missing waits until the metric of the fields that a kind's definition lacks has a good value.
func (s *fixture) missing(kind string, good func(float64) bool) {
	s.Helper()
	s.Must(env.Eventually(s.Within(20*time.Second), func(ctx context.Context) error {
		n, err := s.Metric(ctx, "notifier_definition_fields_missing", "kind", kind)
		if err == nil && !good(n) {
			err = fmt.Errorf("%v fields of %s are missing", n, kind)
		}
		return err
	}))
}

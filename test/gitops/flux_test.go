package gitops

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

// Fails when the built version is not a released one.
func TestTheControllersAreReleasesOfFlux(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), env.OpenTimeout)
	defer cancel()
	programs, err := Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for path, module := range map[string]string{programs.Source: sourceModule, programs.Kustomize: kustomizeModule} {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := info.Main; m.Path != module || m.Version != "v1.9.0" || m.Sum == "" || m.Replace != nil {
			t.Errorf("%s is built from %+v", path, m)
		}
	}
}

// A restart of source-controller without its storage affects every source: Ready is Unknown and the artifact missing,
// then both return at the same revision. Fails when one of these states is published, or when the result of a later push
// is not.
func TestARestartOfSourceControllerWithEmptyStorageIsNoNews(t *testing.T) {
	eachWay(t, func(s *fixture) {
		a, b := s.deployed()
		s.Must(s.flux.Source.Stop())
		s.Must(s.flux.LoseStorage())
		s.Must(s.flux.Source.Again(s.Ctx))
		for _, m := range []*team{a, b} {
			s.Must(env.Eventually(s.Within(soon), m.artifactServed))
		}
		s.nothingMore(a, b)

		r1 := a.pushAndCall("after the restart", a.configMap("{v: two}"))
		a.toldApplied("after the restart", r1, "configured")
		s.nothingMore(a, b)
	})
}

// The interval is an hour, so that only the webhook makes source-controller fetch. Fails when the reconcile request does
// not reach it, when a message has another revision than the pushed one, is repeated or missing, or is sent to the other
// tenant.
func TestAWebhookBringsACommitThatIsReportedOnceAndToItsTenantAlone(t *testing.T) {
	eachWay(t, func(s *fixture) {
		a, b := s.deployed()
		r1 := a.pushAndCall("steady push", a.configMap("{v: two}"))
		a.toldApplied("steady push", r1, "configured")
		b.only()
		r1 = b.pushAndCall("the other tenant's", b.configMap("{v: two}"))
		b.toldApplied("the other tenant's", r1, "configured")
		r2 := a.pushAndCall("nothing to apply", a.configMap("{v: two} # the same"))
		a.toldApplied("nothing to apply", r2, "")
		s.nothingMore(a, b)

		obj := s.Read(a.Tenant, "GitRepository", "app")
		handled, _, err := unstructured.NestedString(obj.Object, "status", "lastHandledReconcileAt")
		s.Must(err)
		if asked := obj.GetAnnotations()[env.RequestedAt]; handled == "" || handled != asked {
			s.Errorf("source-controller handled the request %q, and %q was made", handled, asked)
		}
	})
}

// Fails when a failure or its end is published twice, the retries of the failure are published, or the failure is sent
// to the other tenant. Of that tenant, whose app is only deployed, it fails when an intermediate state of the source and its Kustomization
// is published: the Kustomization has failed until the source has its first artifact, without a POST.
func TestABrokenManifestAndItsFixAreReportedOnce(t *testing.T) {
	eachWay(t, func(s *fixture) {
		a, b := s.deployed()
		r1 := a.pushAndCall("broken", a.configMap("{v: {nested: 1}}"))
		a.told(a.stored("broken", r1), a.failed("app", "ReconciliationFailed", fmt.Sprintf("ConfigMap/%[1]s/app dry-run failed: "+
			"failed to create typed patch object (%[1]s/app; /v1, Kind=ConfigMap): .data.v: expected string, "+
			`got &value.valueUnstructured{Value:map[string]interface {}{"nested":1}}`, a.Namespace), r1))
		s.Must(env.Eventually(s.Within(soon), a.retried()))
		r2 := a.pushAndCall("fixed", a.configMap("{v: two}"))
		a.toldApplied("fixed", r2, "configured")
		s.nothingMore(a, b)
	})
}

// The controllers are locked down as for several tenants. Fails when the lockdown has no effect, when its refusals are
// sent to the tenant that they protect, or when they are not sent to the refused tenant.
func TestALockdownRefusalIsReportedToTheRefusedTenantAlone(t *testing.T) {
	eachWay(t, func(s *fixture) {
		a, b := s.deployed()
		r1 := b.pushAndCall("not mine", a.configMap("{v: stolen}"))
		b.told(b.stored("not mine", r1), b.failed("app", "ReconciliationFailed", fmt.Sprintf("ConfigMap/%[1]s/app dry-run failed (Forbidden): "+
			`configmaps "app" is forbidden: User %[2]q cannot patch resource "configmaps" in API group "" in the namespace %[1]q`,
			a.Namespace, env.ServiceAccountUser(b.Namespace, applier)), r1))
		b.kustomization("theirs", a.Namespace)
		b.told(b.failed("theirs", "AccessDenied", fmt.Sprintf("can't access 'GitRepository/%s/app', "+
			"cross-namespace references have been blocked", a.Namespace), ""))
		s.nothingMore(a, b)
	})
}

// artifactServed returns an error until source-controller serves the artifact that the GitRepository names.
func (m *team) artifactServed(ctx context.Context) error {
	obj, err := m.Get(ctx, "GitRepository", "app")
	if err != nil {
		return err
	}
	url, found, err := unstructured.NestedString(obj.Object, "status", "artifact", "url")
	if err != nil || !found {
		return errors.Join(err, errors.New("no artifact"))
	}
	resp, err := m.fixture.Do(ctx, http.MethodGet, url, nil, nil)
	if err == nil && resp.Status != http.StatusOK {
		err = fmt.Errorf("the artifact: %d", resp.Status)
	}
	return err
}

// retried returns a function that returns an error until kustomize-controller has tried the failed revision once more,
// and failed again.
func (m *team) retried() func(context.Context) error {
	tries := map[string]bool{}
	return func(ctx context.Context) error {
		obj, err := m.Get(ctx, "Kustomization", "app")
		if err != nil {
			return err
		}
		conditions, err := env.Conditions(obj)
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if c.Type == "Ready" && c.Status == "False" {
				tries[c.LastTransitionTime.String()] = true
			}
		}
		if len(tries) < 3 {
			return fmt.Errorf("it failed %d times", len(tries))
		}
		return nil
	}
}

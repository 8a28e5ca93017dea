package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// T1: a foreign resource is shown as denied, and is never written or read; the Receiver's own are served. Fails when the
// Receiver's compile step ignores resources[].namespace, takes a foreign entry for one of its own namespace, or serves
// nothing because of it.
func TestT1AForeignResourceIsDeniedAndTheReceiversOwnAreServed(t *testing.T) {
	s := setUp(t)
	victim := s.NewTenant()
	s.Must(victim.Object(s.Ctx, "GitRepository", "app", nil, ""))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "own", nil, ""))
	s.Must(s.Tenant.Secret(s.Ctx, "grab-token", map[string]string{"token": "t"}))
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "grab", nil, `{"type":"generic","secretRef":{"name":"grab-token"},"resources":[
		{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"own"},
		{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app","namespace":"`+victim.Namespace+`"}]}`))
	c := s.Condition(s.Tenant, "Receiver", "grab", "Serving", metav1.ConditionFalse, "CrossNamespaceDenied")
	if !strings.Contains(c.Message, "spec.resources[1] is in namespace \""+victim.Namespace+"\"") {
		t.Errorf("the message does not name the entry: %s", c.Message)
	}
	s.Must(env.Eventually(s.Within(soon), func(context.Context) error {
		return s.hasEvent("Receiver", "grab", "CrossNamespaceDenied")
	}))
	path := s.Path(s.Tenant, "grab")
	sent := time.Now()
	s.mustTell("its webhook", s.hook(http.MethodPost, path, nil, "{}"), http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "own", sent)
	// A webhook later on the same bus has been applied: another trigger of the first one would have been, too.
	s.marker("marker")
	for _, tenant := range []*env.Tenant{victim, s.Tenant} { // nor is the foreign entry taken for one of the Receiver's namespace
		at, err := tenant.Requested(s.Ctx, "GitRepository", "app")
		s.Must(err)
		if !at.IsZero() {
			t.Errorf("%s/app was asked to reconcile at %s", tenant.Namespace, at)
		}
	}
	// Without other resources it is refused.
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "grab", nil, `{"type":"generic","secretRef":{"name":"grab-token"},"resources":[
		{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app","namespace":"`+victim.Namespace+`"}]}`))
	s.Condition(s.Tenant, "Receiver", "grab", "Ready", metav1.ConditionFalse, "CrossNamespaceDenied")
	s.mustTell("without resources of its own", s.hook(http.MethodPost, path, nil, "{}"), http.StatusNotFound)
}

// T2: fails when the applier omits the impersonation header, or uses another name than the live Receiver's. The proof is
// the API server's own audit log.
func TestT2EveryWriteIsMadeAsTheTenantsServiceAccount(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "deployer"))
	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "deployer", []string{"patch"}, env.Patchable...))
	audit, err := s.System.Audit()
	s.Must(err)
	named := s.Receiver(s.Tenant, "named", "t", `,"serviceAccountName":"deployer"`)
	sent := time.Now()
	s.Push(named, "t", http.StatusOK)
	at := s.Requested(s.Tenant, "GitRepository", "app", sent)
	s.Push(s.Receiver(s.Tenant, "default", "t", ""), "t", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", at.Add(1))

	object := "/namespaces/" + s.Tenant.Namespace + "/gitrepositories/app"
	self := "system:serviceaccount:" + env.SystemNamespace + ":" + env.ServiceAccount
	seen := map[string]bool{}
	_, err = audit.Wait(s.Ctx, func(e env.AuditEntry) bool {
		if e.Verb == "patch" && e.User.Username == self && strings.Contains(e.RequestURI, object) {
			seen[e.Impersonated()] = true
		}
		return len(seen) == 2
	})
	s.Must(err)
	for _, account := range []string{"deployer", "default"} {
		if name := "system:serviceaccount:" + s.Tenant.Namespace + ":" + account; !seen[name] {
			t.Errorf("no patch was made as %s, only as %v", name, seen)
		}
	}
	if seen[""] {
		t.Error("a patch was made without impersonation")
	}
}

// T2: fails when the process's identity is granted a write on Flux kinds, or impersonation of anything but a patch on them.
func TestT2TheProcessItselfMayNotWriteTenantsObjects(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	self, err := s.System.As(s.Ctx, env.SystemNamespace, env.ServiceAccount)
	s.Must(err)
	s.mustBeForbidden(self, "")
	s.Must(s.System.Grant(s.Ctx, s.Tenant.Namespace, "default", []string{"patch", "get", "delete", "update"}, env.Patchable...))
	s.mustBeForbidden(self, "system:serviceaccount:"+s.Tenant.Namespace+":default")
	s.mustBeForbidden(self, "system:admin")
}

// T2: fails when a refusal does not reach the Receiver, or when Ready falls because of it, or when it is not cleared.
func TestT2ARefusedWriteIsShownAndRetried(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "weak"))
	path := s.Receiver(s.Tenant, "app", "t", `,"serviceAccountName":"weak"`)
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	obj, err := s.Tenant.WaitCondition(s.Ctx, "Receiver", "app", "WriteDenied", metav1.ConditionTrue, "")
	s.Must(err)
	conditions, err := env.Conditions(obj)
	s.Must(err)
	for _, c := range conditions {
		if c.Type != "WriteDenied" {
			continue
		}
		for _, part := range []string{"weak", "patch", "gitrepositories"} {
			if !strings.Contains(c.Message, part) {
				t.Errorf("WriteDenied does not name %s: %s", part, c.Message)
			}
		}
	}
	s.Condition(s.Tenant, "Receiver", "app", "Ready", metav1.ConditionTrue, "")

	// RBAC often arrives after the Receiver: the pending trigger is applied without another webhook.
	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "weak", []string{"patch"}, env.Patchable...))
	s.Requested(s.Tenant, "GitRepository", "app", sent)
	s.Condition(s.Tenant, "Receiver", "app", "WriteDenied", metav1.ConditionFalse, "")
}

// T4: fails when the applier writes each trigger, or keys slots by Receiver instead of by object.
func TestT4AFloodOverTwoReceiversIsOneRequestAnInterval(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "other"))
	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "other", []string{"patch"}, env.Patchable...))
	paths := []string{s.Receiver(s.Tenant, "one", "t", ""), s.Receiver(s.Tenant, "two", "t", `,"serviceAccountName":"other"`)}
	requests := s.watchRequests(s.Tenant, "GitRepository", "app")
	begin := time.Now()
	var last time.Time
	for time.Since(begin) < 3*time.Second {
		last = time.Now()
		for _, path := range paths {
			resp, err := s.GitHub(s.Ctx, path, "t", "push", env.GitHubPush)
			s.Must(err)
			if resp.Status/100 != 2 {
				t.Fatalf("webhook: got %d %q", resp.Status, resp.Body)
			}
		}
	}
	s.Requested(s.Tenant, "GitRepository", "app", last)
	stamps := requests()
	for i := 1; i < len(stamps); i++ {
		// The stamp is taken when the slot opens; the request itself takes a little.
		if gap := stamps[i].Sub(stamps[i-1]); gap < 900*time.Millisecond {
			t.Errorf("two requests %s apart, want at least the interval of 1s", gap)
		}
	}
	if len(stamps) < 2 {
		t.Errorf("got %d requests over 3s of webhooks", len(stamps))
	}
}

// T4: fails when the key of a pending trigger leaves out the service account: the weak Receiver's would replace the
// strong one's.
func TestT4AWeakReceiverDoesNotReplaceAStrongOnesTrigger(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "weak"))
	strong := s.Receiver(s.Tenant, "strong", "t", "")
	weak := s.Receiver(s.Tenant, "weak", "t", `,"serviceAccountName":"weak"`)
	for range 3 {
		sent := time.Now()
		s.Push(strong, "t", http.StatusOK)
		for range 20 {
			s.Push(weak, "t", http.StatusOK)
		}
		s.Requested(s.Tenant, "GitRepository", "app", sent)
	}
	s.Condition(s.Tenant, "Receiver", "weak", "WriteDenied", metav1.ConditionTrue, "")
}

// T4: fails when the key of a selector leaves out its labels: one selector's trigger would replace the other's.
func TestT4TwoSelectorsOfOneKindAreBothServed(t *testing.T) {
	s := setUp(t)
	for _, color := range []string{"red", "blue"} {
		s.Must(s.Tenant.Object(s.Ctx, "Kustomization", color, map[string]string{"color": color}, ""))
	}
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "plain", nil, ""))
	selector := func(color string) string {
		return fmt.Sprintf(`{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization","name":"*","matchLabels":{"color":%q}}`, color)
	}
	path, err := s.Tenant.Receiver(s.Ctx, "both", "t", `{"type":"github","secretRef":{"name":"both-token"},"resources":[`+selector("red")+","+selector("blue")+`]}`)
	s.Must(err)
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	for _, color := range []string{"red", "blue"} {
		s.Requested(s.Tenant, "Kustomization", color, sent)
	}
	at, err := s.Tenant.Requested(s.Ctx, "Kustomization", "plain")
	s.Must(err)
	if !at.IsZero() {
		t.Error("an object that no selector matches was asked to reconcile")
	}
}

package env_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"notifier/test/crds"
	"notifier/test/env"
)

func TestEveryStandInKindIsServedWithItsStatus(t *testing.T) {
	ctx, c := within(t, time.Minute), env.ControlPlane(t)
	if err := crds.Install(ctx, c.Config); err != nil {
		t.Fatal(err)
	}
	ns, err := c.Namespace(ctx, "kinds-")
	if err != nil {
		t.Fatal(err)
	}
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 10 {
		t.Errorf("%d kinds, want 10", len(all))
	}
	for _, crd := range all {
		kind := crd.Spec.Names.Kind
		object := fmt.Sprintf("{apiVersion: %s/%s, kind: %s, metadata: {name: x, namespace: %s}",
			crd.Spec.Group, crd.Spec.Versions[0].Name, kind, ns)
		got, err := c.Apply(ctx, object+", spec: {any: {thing: [1]}}, status: {ignored: true}}")
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Object["status"] != nil {
			t.Errorf("%s: a write of the object changed its status", kind)
		}
		if err := c.ApplyStatus(ctx, object+", status: {conditions: [{type: Ready, status: 'False'}]}}"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestApplyTakesAStreamAndSaysWhichObjectWasRefused(t *testing.T) {
	ctx, c := within(t, time.Minute), env.ControlPlane(t)
	ns, err := c.Namespace(ctx, "apply-")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Apply(ctx, fmt.Sprintf(`# a comment alone
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: %[1]s}
---
apiVersion: v1
kind: Secret
metadata: {name: two, namespace: %[1]s}
stringData: {token: value}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "not a name", namespace: %[1]s}
`, ns))
	if !apierrors.IsInvalid(err) || len(got) != 2 {
		t.Errorf("applied %d objects, error %v", len(got), err)
	}
}

func TestKubeconfigAsHasNoMoreRightsThanTheAccount(t *testing.T) {
	ctx, c := within(t, time.Minute), env.ControlPlane(t)
	ns, err := c.Namespace(ctx, "account-")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ServiceAccount(ctx, ns, "notifier"); err != nil {
		t.Fatal(err)
	}
	if err := c.Grant(ctx, ns, "notifier", []string{"list"}, "secrets"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.KubeconfigAs(ctx, ns, "notifier", file); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("what was granted: %v", err)
	}
	if _, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what was not granted: %v", err)
	}
}

func TestAuditShowsWhatHappenedSinceItWasOpened(t *testing.T) {
	ctx, c := within(t, time.Minute), env.ControlPlane(t)
	ns, err := c.Namespace(ctx, "audit-")
	if err != nil {
		t.Fatal(err)
	}
	apply := func(name string) {
		t.Helper()
		if _, err := c.Apply(ctx, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}}", name, ns)); err != nil {
			t.Fatal(err)
		}
	}
	named := func(name string) func(env.AuditEntry) bool {
		return func(e env.AuditEntry) bool { return e.ObjectRef.Namespace == ns && e.ObjectRef.Name == name }
	}
	first, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	apply("before")
	if _, err := first.Wait(ctx, named("before")); err != nil {
		t.Fatal(err)
	}
	second, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	apply("after")
	e, err := second.Wait(ctx, named("after"))
	if err != nil {
		t.Fatal(err)
	}
	if e.Verb != "patch" || e.User.Username != "admin" || e.ResponseStatus.Code != 201 || e.ObjectRef.Resource != "configmaps" ||
		e.Stage != "ResponseComplete" || e.RequestURI == "" || e.Received.IsZero() || e.Impersonated() != "" {
		t.Errorf("entry is %+v", e)
	}
	if found, err := second.Find(named("before")); err != nil || len(found) != 0 {
		t.Errorf("the second reader sees what was before it: %v, %v", found, err)
	}
	entries, err := first.Entries()
	if err != nil || !slices.ContainsFunc(entries, named("after")) {
		t.Errorf("the first reader lacks the later entry: %v", err)
	}
}

func TestAnExistingClusterIsUsedAndLeftAlone(t *testing.T) {
	own := env.ControlPlane(t)
	t.Setenv("TEST_KUBECONFIG", own.Kubeconfig)
	t.Setenv("TEST_AUDIT_LOG", "")
	c, err := env.StartControlPlane(within(t, time.Minute), env.ClusterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Process != nil || c.Config.Host != own.Config.Host {
		t.Errorf("process %v, host %s, want none and %s", c.Process, c.Config.Host, own.Config.Host)
	}
	if _, err := c.Audit(); err == nil {
		t.Error("an unknown audit log was opened")
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CoreV1().Namespaces().Get(within(t, time.Minute), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the cluster is gone after Stop: %v", err)
	}
}

func TestBuildReportsTheCompilersWords(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module broken\n", "main.go": "package main\nfunc main() { undefinedName() }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := env.Build(within(t, time.Minute), dir, ".", filepath.Join(dir, "out"), true)
	if err == nil || !strings.Contains(err.Error(), "undefinedName") {
		t.Errorf("build returned %v", err)
	}
}

// Fails when each use of a program runs the go command, or when a program that was removed is taken for built.
func TestAProgramIsBuiltOnceInARun(t *testing.T) {
	dir := t.TempDir()
	build := func(main string) error {
		for name, text := range map[string]string{"go.mod": "module once\n", "main.go": "package main\n" + main} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return env.Build(within(t, time.Minute), dir, ".", filepath.Join(dir, "out"), false)
	}
	if err := build("func main() {}\n"); err != nil {
		t.Fatal(err)
	}
	const broken = "func main() { undefinedName() }\n"
	if err := build(broken); err != nil {
		t.Errorf("it is built again: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := build(broken); err == nil {
		t.Error("a program that is not there is not built")
	}
}

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"notifier/test/env"
)

// The number of objects in each namespace, beside a Secret that its Receivers and its Provider name.
const (
	receiversEach = 2
	alertsEach    = 2
	ownEach       = receiversEach + alertsEach + 1
	fluxEach      = 10
)

// tenantsMayPatch grants the right that each Receiver's service account needs; without it every Receiver would get an
// Event about that.
const tenantsMayPatch = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"scale-tenants"},
	"rules":[{"apiGroups":["source.toolkit.fluxcd.io"],"resources":["gitrepositories"],"verbs":["patch"]}]}
---
{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"scale-tenants"},
	"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"scale-tenants"},
	"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:serviceaccounts"}]}
`

// writers is how many namespaces are filled at once.
const writers = 24

func namespace(i int) string { return fmt.Sprintf("scale-%04d", i) }

// build fills the cluster. The notifications of every namespace are sent to address.
func build(ctx context.Context, w *env.System, namespaces int, address string, say func(string)) error {
	if _, err := w.Apply(ctx, tenantsMayPatch); err != nil {
		return fmt.Errorf("what tenants may: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	var done atomic.Int64
	said := time.Now()
	for i := range namespaces {
		group.Go(func() error {
			if err := fill(ctx, w, namespace(i), address); err != nil {
				return fmt.Errorf("fill %s: %w", namespace(i), err)
			}
			done.Add(1)
			return nil
		})
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			say(fmt.Sprintf("… %d of %d namespaces", done.Load(), namespaces))
		}
	}
	return group.Wait()
}

func fill(ctx context.Context, w *env.System, ns, address string) error {
	_, err := w.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = w.Client.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"}, StringData: map[string]string{"token": ns, "address": address},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	create := func(kind, name, spec string) (*unstructured.Unstructured, error) {
		gvr := env.Kinds[kind]
		var o unstructured.Unstructured
		err := json.Unmarshal(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"spec":%s,"metadata":{"name":%q,"labels":{
			"app.kubernetes.io/part-of":%q,"kustomize.toolkit.fluxcd.io/name":"tenants","kustomize.toolkit.fluxcd.io/namespace":"flux-system"}}}`,
			gvr.Group+"/"+gvr.Version, kind, spec, name, ns), &o)
		if err != nil {
			return nil, err
		}
		return w.Dynamic.Resource(gvr).Namespace(ns).Create(ctx, &o, metav1.CreateOptions{})
	}
	specs := map[string]struct {
		n    int
		spec string
	}{
		"Receiver": {receiversEach, `{"type":"github","events":["ping","push"],"secretRef":{"name":"hook"},
			"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app-0"}]}`},
		"Provider": {1, `{"type":"slack","channel":"general","secretRef":{"name":"hook"}}`},
		"Alert": {alertsEach, `{"providerRef":{"name":"app-0"},"eventSeverity":"info","exclusionList":["^Dependencies.*not ready"],
			"eventSources":[{"kind":"GitRepository","name":"*"},{"kind":"Kustomization","name":"*"},{"kind":"HelmRelease","name":"*"}]}`},
		"GitRepository": {4, `{"interval":"1m","url":"https://git.example.com/team/app","ref":{"branch":"main"}}`},
		"Kustomization": {4, `{"interval":"10m","path":"./deploy","prune":true,"sourceRef":{"kind":"GitRepository","name":"app-0"}}`},
		"HelmRelease":   {2, `{"interval":"10m","chart":{"spec":{"chart":"app","sourceRef":{"kind":"HelmRepository","name":"charts"}}}}`},
	}
	for kind, s := range specs {
		for i := range s.n {
			name := fmt.Sprintf("app-%d", i)
			o, err := create(kind, name, s.spec)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(o.GetAPIVersion(), "notification.") {
				if err := settle(ctx, w, o, ns); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// settle writes the status of a Flux object that was reconciled successfully.
func settle(ctx context.Context, w *env.System, o *unstructured.Unstructured, ns string) error {
	const revision = "main@sha1:1f2e3d4c5b6a79880112233445566778899aabbc"
	text := fmt.Sprintf(`{"status":{"observedGeneration":1,"lastAppliedRevision":%[1]q,"lastAttemptedRevision":%[1]q,
		"artifact":{"revision":%[1]q,"digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","path":"gitrepository/%[2]s/app/x.tar.gz",
			"url":"http://source-controller.flux-system/gitrepository/%[2]s/app/x.tar.gz","lastUpdateTime":%[3]q},
		"inventory":{"entries":[{"id":"%[2]s_app_apps_Deployment","v":"v1"},{"id":"%[2]s_app__Service","v":"v1"}]},
		"conditions":[{"type":"Ready","status":"True","reason":"ReconciliationSucceeded","message":"Applied revision: %[1]s",
			"observedGeneration":1,"lastTransitionTime":%[3]q}]}}`, revision, ns, time.Now().UTC().Format(time.RFC3339))
	_, err := w.Dynamic.Resource(env.Kinds[o.GetKind()]).Namespace(ns).
		Patch(ctx, o.GetName(), types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "flux"}, "status")
	return err
}

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"notifier/test/env"
)

// leftovers are the kinds of our objects that Flux has no object for, in the order of the command in docs/flux.md.
var leftovers = []schema.GroupVersionResource{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
}

const ourName = "app.kubernetes.io/name=notifier"

// deleteLeftovers runs the page's command: kubectl -n flux-system delete <kinds> -l app.kubernetes.io/name=notifier.
func (s *fixture) deleteLeftovers() {
	s.Helper()
	root, err := env.ProductDir()
	s.Must(err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "flux.md"))
	s.Must(err)
	var names []string
	for _, kind := range leftovers {
		names = append(names, kind.Resource)
		err := s.System.Dynamic.Resource(kind).DeleteCollection(s.Ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ourName})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) { // of a namespaced kind
			err = s.System.Dynamic.Resource(kind).Namespace(fluxNamespace).
				DeleteCollection(s.Ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ourName})
		}
		s.Must(err)
	}
	if command := "kubectl -n flux-system delete " + strings.Join(names, ",") + " -l " + ourName; !strings.Contains(string(page), command) {
		s.Errorf("docs/flux.md does not have the command\n%s", command)
	}
}

// inFlux starts the process as the service account that config/flux makes.
func (s *fixture) inFlux(dataDir string) *env.Notifier {
	s.Helper()
	kubeconfig := filepath.Join(s.TempDir(), "kubeconfig")
	s.Must(s.System.KubeconfigAs(s.Ctx, fluxNamespace, env.ServiceAccount, kubeconfig))
	n, err := s.System.Start(s.Ctx, env.NotifierOptions{
		DataDir: dataDir, Kubeconfig: kubeconfig, Env: []string{"RUNTIME_NAMESPACE=" + fluxNamespace},
	})
	s.Must(err)
	s.Cleanup(func() { _ = n.Kill() })
	return n
}

// waits makes an event whose delivery has to wait, since its destination is down.
func (s *fixture) waits(sink *env.Sink) {
	s.Helper()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.SlackAlert(s.Ctx, "all", sink.URL("/")))
	s.Must(sink.Down())
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "no such file", "main@sha1:1")
	s.Must(env.Eventually(s.Within(30*time.Second), func(ctx context.Context) error {
		tries, err := s.Metric(ctx, "notifier_deliveries_total", "outcome", "retry")
		if err == nil && tries == 0 {
			err = errors.New("it was not tried yet")
		}
		return err
	}))
}

// The way back by command of docs/flux.md, done on the real API server, and the way there once more. Fails when the way
// back leaves a part of ours that Flux would run with, or removes a part of Flux's, the volume or a definition. Fails
// also when Flux's definitions keep other fields than the page says. Fails also when, after the return, a waiting
// notification is not sent, or Flux's finalizer blocks a deletion.
func TestTheWayBackAndForthKeepsWhatWaits(t *testing.T) {
	s := swap(t)
	ours, err := manifests("flux")
	s.Must(err)
	s.as(byKubectl, ours)
	dataDir := s.TempDir()
	n := s.inFlux(dataDir)
	sink := s.NewSink()
	s.Notifier = n
	s.waits(sink)
	s.Receiver(s.Tenant, "hook", "t", `,"serviceAccountName":"deployer","rateLimit":{"perMinute":60}`)
	s.annotate("Receiver", "hook", `{"metadata":{"annotations":{"notification.toolkit.fluxcd.io/service-account":"deployer"}}}`)
	s.Must(n.Stop())

	s.deleteDeployment()
	s.as(byFlux, s.fluxInstall())
	s.deleteLeftovers()
	s.onlyFluxs(ours)
	hook := s.Read(s.Tenant, "Receiver", "hook")
	s.pruned(hook, "spec", "serviceAccountName")
	s.pruned(hook, "spec", "rateLimit")
	alert := s.served("alerts", "v1beta3", "all") // the version that all of Flux's releases serve
	s.pruned(alert, "status")
	if hook.GetAnnotations()["notification.toolkit.fluxcd.io/service-account"] != "deployer" {
		t.Error("Flux's definition prunes the annotation")
	}
	// As Flux's controller does when it sees the Receiver.
	s.annotate("Receiver", "hook", `{"metadata":{"finalizers":["finalizers.fluxcd.io"]}}`)

	s.as(byKubectl, ours)
	s.runsOurs()
	hook = s.Read(s.Tenant, "Receiver", "hook")
	s.pruned(hook, "spec", "serviceAccountName") // permanently: Flux wrote the object
	s.Must(sink.Up(s.Ctx))
	s.inFlux(dataDir)
	_, err = sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) > 0 })
	s.Must(err)
	if all := sink.Received(); len(all) != 1 || !strings.Contains(string(all[0].Body), "no such file") {
		t.Errorf("got %d notifications: %s", len(all), all[0].Body)
	}
	s.Must(s.Tenant.Delete(s.Ctx, "Receiver", "hook"))
	s.Must(env.Eventually(s.Within(30*time.Second), func(ctx context.Context) error {
		_, err := s.Tenant.Get(ctx, "Receiver", "hook")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the Receiver is still there: %w", err)
	}))
}

// annotate merges a patch into an object's metadata.
func (s *fixture) annotate(kind, name, patch string) {
	s.Helper()
	objects := s.System.Dynamic.Resource(env.Kinds[kind]).Namespace(s.Tenant.Namespace)
	_, err := objects.Patch(s.Ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.Must(err)
}

// pruned checks that an object does not have a field.
func (s *fixture) pruned(obj *unstructured.Unstructured, field ...string) {
	s.Helper()
	if _, found, err := unstructured.NestedFieldNoCopy(obj.Object, field...); found || err != nil {
		s.Errorf("%s %s has %s (%v)", obj.GetKind(), obj.GetName(), strings.Join(field, "."), err)
	}
}

// onlyFluxs checks the objects after the way back: all of Flux's, and of ours the volume.
func (s *fixture) onlyFluxs(ours string) {
	s.Helper()
	d := s.runsFluxs()
	if spec := d.Spec.Template.Spec; len(spec.Volumes) != 1 || spec.Containers[0].StartupProbe != nil {
		s.Errorf("Flux's controller runs with something of ours: %+v", spec)
	}
	stays := s.identities(s.fluxInstall())
	for id, obj := range s.identities(ours) {
		_, isFluxs := stays[id]
		if _, err := s.System.Read(s.Ctx, obj); apierrors.IsNotFound(err) == (isFluxs || obj.GetKind() == "PersistentVolumeClaim") {
			s.Errorf("%s: Flux's %t, got %v", id, isFluxs, err)
		}
	}
	_, err := s.System.Client.CoreV1().ServiceAccounts(fluxNamespace).Get(s.Ctx, deploymentName, metav1.GetOptions{})
	s.Must(err)
}

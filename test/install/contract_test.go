package install

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"notifier/test/env"
)

func (s *fixture) deployment() *appsv1.Deployment {
	s.Helper()
	d, err := s.System.Client.AppsV1().Deployments(env.SystemNamespace).Get(s.Ctx, "notification-controller", metav1.GetOptions{})
	s.Must(err)
	return d
}

// The names that the rest of Flux, and its NetworkPolicies, hard-code. Fails when a Service, its port, or the pod label
// has another name.
func TestTheInstallationIsWhereFluxLooksForIt(t *testing.T) {
	s := setUp(t)
	d := s.deployment()
	template := d.Spec.Template
	if template.Labels["app"] != "notification-controller" {
		t.Errorf("the pod label app is %q: Flux's NetworkPolicy allow-webhooks selects notification-controller", template.Labels["app"])
	}
	for name, port := range map[string]struct {
		target string
		number int32
	}{"notification-controller": {"http", 9090}, "webhook-receiver": {"http-webhook", 9292}} {
		service, err := s.System.Client.CoreV1().Services(env.SystemNamespace).Get(s.Ctx, name, metav1.GetOptions{})
		s.Must(err)
		if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(template.Labels)) {
			t.Errorf("Service %s selects %v, the pods have %v", name, service.Spec.Selector, template.Labels)
		}
		p := service.Spec.Ports[0]
		if p.Port != 80 || p.TargetPort.StrVal != port.target {
			t.Errorf("Service %s: port %d to %s, want 80 to %s", name, p.Port, p.TargetPort.String(), port.target)
		}
		if !slices.ContainsFunc(template.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
			return c.Name == port.target && c.ContainerPort == port.number
		}) {
			t.Errorf("no container port %s is %d", port.target, port.number)
		}
	}
	claim := template.Spec.Volumes[0].PersistentVolumeClaim
	if claim == nil {
		t.Fatal("the data are not on a volume claim")
	}
	_, err := s.System.Client.CoreV1().PersistentVolumeClaims(env.SystemNamespace).Get(s.Ctx, claim.ClaimName, metav1.GetOptions{})
	s.Must(err)
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("the strategy is %s: two processes must not have the volume", d.Spec.Strategy.Type)
	}
	if grace := template.Spec.TerminationGracePeriodSeconds; grace == nil || *grace < 10 {
		t.Errorf("the pod has %v s to end, a drain takes up to 10", grace)
	}
}

// Pod Security admission, level restricted, which the namespace enforces, decides. Fails when a field of the security
// context is removed, or the namespace's label.
func TestThePodIsTakenByTheRestrictedLevel(t *testing.T) {
	s := setUp(t)
	create := func(change func(*corev1.PodSpec)) error {
		spec := s.deployment().Spec.Template.Spec
		change(&spec)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "notifier-"}, Spec: spec}
		_, err := s.System.Client.CoreV1().Pods(env.SystemNamespace).Create(s.Ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	s.Must(create(func(*corev1.PodSpec) {}))
	err := create(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil })
	if !apierrors.IsForbidden(err) {
		t.Errorf("a pod that keeps its capabilities: got %v, want it to be forbidden", err)
	}
	// Restricted does not require these.
	security := s.deployment().Spec.Template.Spec.Containers[0].SecurityContext
	if security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
		t.Error("the root file system can be written")
	}
	if len(security.Capabilities.Add) > 0 {
		t.Errorf("capabilities are added: %v", security.Capabilities.Add)
	}
}

var process = env.Shared(func(ctx context.Context) (*env.Notifier, error) {
	w, err := shared()
	if err != nil {
		return nil, err
	}
	d, err := w.Client.AppsV1().Deployments(env.SystemNamespace).Get(ctx, "notification-controller", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := d.Spec.Template.Spec
	if pod.ServiceAccountName != env.ServiceAccount {
		return nil, fmt.Errorf("the pod runs as %s, the tests as %s", pod.ServiceAccountName, env.ServiceAccount)
	}
	var args []string
	for _, arg := range pod.Containers[0].Args[1:] { // the first is "serve"
		if !strings.Contains(arg, "-addr=") && !strings.HasPrefix(arg, "--data-dir") { // they depend on this machine
			args = append(args, arg)
		}
	}
	return w.Start(ctx, env.NotifierOptions{Args: args})
})

// process returns the notifier with the flags of the Deployment, under the service account that this names.
func (s *fixture) process() *env.Notifier {
	s.Helper()
	n, err := process()
	s.Must(err)
	return n
}

// The process, started as by the Deployment and under its service account, does its whole job: it needs no right that it
// lacks. Fails when the ClusterRole or the Role lacks a verb that is used.
func TestTheProcessServesAsTheInstallationsServiceAccount(t *testing.T) {
	s := setUp(t)
	n := s.process()
	s.Notifier = n
	sink, tenant := s.NewSink(), s.Tenant
	s.Must(tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	path := s.Receiver(tenant, "app", "t", "")
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	s.Requested(tenant, "GitRepository", "app", sent)

	s.Must(tenant.SlackAlert(s.Ctx, "all", sink.URL("/")))
	s.PostEvent(tenant, "Kustomization", "app", "error", "BuildFailed", "no such file", "main@sha1:1")
	// The transition that only a watcher sees is delivered as well.
	s.Must(tenant.SetReady(s.Ctx, "Kustomization", "app", true, "ReconciliationSucceeded", "recovered", "main@sha1:2"))
	_, err := sink.Wait(s.Ctx, func(all []env.Received) bool {
		var text strings.Builder
		for _, r := range all {
			text.Write(r.Body)
		}
		return strings.Contains(text.String(), "no such file") && strings.Contains(text.String(), "recovered")
	})
	s.Must(err)

	// A finalizer that Flux left does not keep the object.
	s.Must(tenant.Apply(s.Ctx, `{"apiVersion":"notification.toolkit.fluxcd.io/v1","kind":"Alert","metadata":{"name":"left","namespace":"$NS",
		"finalizers":["finalizers.fluxcd.io"]},"spec":{"providerRef":{"name":"all"},"eventSources":[{"kind":"Kustomization","name":"*"}]}}`))
	s.Must(tenant.Delete(s.Ctx, "Alert", "left"))
	s.Must(s.System.DeleteNamespace(s.Ctx, tenant.Namespace))
	if strings.Contains(n.Logs(), "forbidden") {
		t.Error("the process asked for something that it may not do; see its log")
		for line := range strings.SplitSeq(n.Logs(), "\n") {
			if strings.Contains(line, "forbidden") {
				t.Log(line)
			}
		}
	}
}

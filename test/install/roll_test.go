package install

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"notifier/test/env"
)

// A Deployment that rolls, the old Pod first, starts the new one while the old one ends, with the same volume. Fails
// when the second process harms the first, does not wait for it, or does not continue when it has ended.
func TestTheNextPodWaitsForTheVolume(t *testing.T) {
	s := setUp(t)
	dataDir := s.TempDir()
	s.Start(env.NotifierOptions{DataDir: dataDir})
	first := s.Notifier
	path := s.Receiver(s.Tenant, "hook", "t", "")
	next, err := s.System.Launch(s.Ctx, env.NotifierOptions{DataDir: dataDir})
	s.Must(err)
	s.Cleanup(func() { _ = next.Kill() })
	s.Must(env.Eventually(s.Within(time.Minute), func(context.Context) error {
		if !strings.Contains(next.Logs(), "waiting for another process to give the data directory back") {
			return errors.New("the next process does not say that it waits")
		}
		return nil
	}))
	s.Push(path, "t", http.StatusOK)
	s.Must(first.Stop())
	s.Must(next.Ready(s.Ctx))
	s.Notifier = next
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
}

// patchesForFlux are patches like those that Flux's documentation recommends for the kustomization.yaml of flux-system:
// the lockdown for tenants, a proxy, a place to run, more resources.
const patchesForFlux = `
patches:
- target: {kind: Deployment, name: "(kustomize-controller|helm-controller|notification-controller|image-reflector-controller)"}
  patch: |
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: --no-cross-namespace-refs=true
- target: {kind: Deployment, labelSelector: app.kubernetes.io/part-of=flux}
  patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: all}
    spec:
      template:
        metadata:
          annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}
        spec:
          containers:
          - name: manager
            env:
            - {name: HTTPS_PROXY, value: "http://proxy.example.com:3129"}
            - {name: NO_PROXY, value: ".cluster.local.,.cluster.local,.svc"}
            resources:
              limits: {memory: 2Gi}
          tolerations:
          - {key: infra, operator: Exists}
`

// Fails when patches that were written for Flux's controllers do not fit our Deployment: a container of another name, no
// arguments to add to, labels that are not selected.
func TestPatchesWrittenForFluxFitOurDeployment(t *testing.T) {
	s := swap(t)
	s.as(byKustomize, s.fluxFromGit(patchesForFlux, "flux/component"))
	s.runsOurs()
	c := s.sound().Spec.Template.Spec.Containers[0]
	if c.Args[0] != "serve" || !slices.Contains(c.Args, "--no-cross-namespace-refs=true") || c.Resources.Limits.Memory().String() != "2Gi" ||
		!slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "HTTPS_PROXY" }) {
		t.Errorf("got %v %v %v", c.Args, c.Env, c.Resources)
	}
}

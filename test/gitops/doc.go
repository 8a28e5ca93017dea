// Package gitops runs the real Flux beside notifier: source-controller and kustomize-controller, compiled from the modules that
// test/flux pins, as their own manifests install them, and a Git server to push to.
//
// What is real: both programs, their definitions and roles, the objects' status as they write it, what they POST, Git over HTTP. What
// is missing: a kubelet, so that a Kustomization can apply what needs no Pod only.
package gitops

// Package gitops runs the real Flux beside notifier: source-controller and kustomize-controller, compiled from the
// modules that test/flux pins, as their own manifests install them, and a Git server to push to.
//
// Real are both programs, their definitions and roles, the objects' status as they write it, their POSTs, and Git over
// HTTP. A kubelet is missing, so that a Kustomization can apply only objects that need no Pod.
package gitops

// Package controlplane runs a real Kubernetes control plane inside one process: an
// embedded etcd, kube-apiserver and the few controllers that the tests and the demo
// depend on.
//
// What is real: authentication by client certificate and service account token,
// RBAC, admission (ValidatingAdmissionPolicy included), the watch cache, CRDs,
// constrained impersonation, TokenRequest, the audit log. What is missing: nodes,
// scheduling, and every controller not named in [Controllers].
//
// Everything listens on loopback at ports that the kernel chose, and all files are below Options.Dir. Durability is
// given up for speed: etcd does not fsync.
//
// kube-apiserver keeps its feature gates, metrics and flags in package variables, so
// Run may be called once in the life of a process. That is why tests use the program
// in cmd/controlplane as a child process and not this package.
package controlplane

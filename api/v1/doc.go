// Package v1 holds the custom resources of API version notification.toolkit.fluxcd.io/v1: the Receiver, and what all kinds
// of the group share (references, condition types and reasons).
//
// The group, its field names and their validation are Flux's, so that manifests written for Flux apply unchanged. What is
// added is optional: on a cluster that has Flux's own CRDs the additional fields are absent and everything else works.
//
// Deepcopy functions and the CRDs in config/crd/bases are generated from the types: run "make generate" after a change.
//
// +kubebuilder:object:generate=true
// +groupName=notification.toolkit.fluxcd.io
package v1

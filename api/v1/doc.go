// Package v1 holds the custom resources of API version notification.toolkit.fluxcd.io/v1: the Alert, the Provider and the Receiver.
//
// The group, its field names and their validation are Flux's, so that manifests written for Flux apply unchanged. What is added is optional:
// on a cluster that has Flux's own CRDs the additional fields are absent and everything else works. Added to an Alert and a Provider is
// a status, so that their owners see whether they work. The program reads these two in version v1beta3, see there.
//
// Deepcopy functions and the CRDs in config/crd/bases are generated from the types: run "make generate" after a change.
//
// +kubebuilder:object:generate=true
// +groupName=notification.toolkit.fluxcd.io
package v1

// Package v1beta3 holds the custom resources of API version notification.toolkit.fluxcd.io/v1beta3: the Alert and the
// Provider.
//
// Group, fields and validation are Flux's. Added is a status, so that the owner of an Alert or Provider sees whether it
// works: package v1 has the types and reasons of its conditions.
//
// +kubebuilder:object:generate=true
// +groupName=notification.toolkit.fluxcd.io
package v1beta3

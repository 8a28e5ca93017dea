// Package v1beta3 has the Alert and the Provider of API version notification.toolkit.fluxcd.io/v1beta3.
//
// The program reads and writes them in this version, in which they are stored: every release of Flux since 2.3 serves it, so that its own
// definitions do in place of ours, and a cluster can go back to any of them. The Go types are those of package v1. Both versions have all
// fields, also those that Flux left out of v1, so that no conversion loses any.
//
// +kubebuilder:object:generate=false
// +groupName=notification.toolkit.fluxcd.io
package v1beta3

package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
)

// Alert is v1.Alert for the definition of this version.
//
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=all;fluxcd;fluxcd-notifications
// +kubebuilder:deprecatedversion:warning="v1beta3 Alert is deprecated, upgrade to v1"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description=""
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description=""
// +kubebuilder:printcolumn:name="Problem",type="string",JSONPath=".status.problem",description="The first thing that is wrong"
type Alert struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v1.AlertSpec   `json:"spec,omitempty"`
	Status v1.AlertStatus `json:"status,omitempty"`
}

// Provider is v1.Provider for the definition of this version.
//
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=all;fluxcd;fluxcd-notifications
// +kubebuilder:deprecatedversion:warning="v1beta3 Provider is deprecated, upgrade to v1"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description=""
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description=""
// +kubebuilder:printcolumn:name="Problem",type="string",JSONPath=".status.problem",description="The first thing that is wrong"
type Provider struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   v1.ProviderSpec   `json:"spec,omitempty"`
	Status v1.ProviderStatus `json:"status,omitempty"`
}

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AlertKind is the kind of an Alert.
const AlertKind = "Alert"

// Values of Alert.spec.eventSeverity.
const (
	SeverityInfo  = "info"
	SeverityError = "error"
)

// AlertSpec says which events go to which Provider.
type AlertSpec struct {
	// ProviderRef names the Provider, of the Alert's own namespace, that the events are sent to.
	// +required
	ProviderRef LocalObjectReference `json:"providerRef"`

	// EventSeverity is the least severity that is sent: "error" sends errors only, "info" sends everything.
	// +kubebuilder:validation:Enum=info;error
	// +kubebuilder:default:=info
	// +optional
	EventSeverity string `json:"eventSeverity,omitempty"`

	// EventSources selects the objects, of the Alert's own namespace, whose events are sent. An event is sent if any entry
	// selects its object. The entries' apiVersion is not looked at.
	// +required
	EventSources []CrossNamespaceObjectReference `json:"eventSources"`

	// InclusionList holds regular expressions in Go's syntax. Where there are any, an event is sent only if its message
	// matches at least one of them.
	// +optional
	InclusionList []string `json:"inclusionList,omitempty"`

	// EventMetadata is added to the metadata of every event that is sent. It wins over annotations of the object and gives
	// way to the summary and to what the controller that made the event wrote.
	// +optional
	EventMetadata map[string]string `json:"eventMetadata,omitempty"`

	// ExclusionList holds regular expressions in Go's syntax. An event whose message matches any of them is not sent, whatever
	// the inclusion list says.
	// +optional
	ExclusionList []string `json:"exclusionList,omitempty"`

	// Summary is a short text, added to the event's metadata under the key "summary". Deprecated: an entry "summary" of
	// eventMetadata does the same.
	// +kubebuilder:validation:MaxLength:=255
	// +optional
	Summary string `json:"summary,omitempty"`

	// Suspend stops the Alert from matching events until it is unset. Events of that time are not sent later.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// AlertStatus is what the program last found out about an Alert. It has no observedGeneration, by which health checks would wait for
// this program where they did not wait for Flux's: the conditions tell which generation each speaks of.
type AlertStatus struct {
	// Conditions of the Alert: Ready, which says that it was accepted, Serving, whether all it asks for is in use, Matching and
	// DeliveriesLost.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	DeliveryStatus `json:",inline"`

	// LastMatched is when an event was last selected, up to ten minutes late.
	// +optional
	LastMatched *metav1.Time `json:"lastMatched,omitempty"`

	// LastSent is when the Provider's destination last accepted a notification of the Alert: the time of lastDelivery.
	// +optional
	LastSent *metav1.Time `json:"lastSent,omitempty"`

	// LastHandledReplay is the value of the annotation notification.toolkit.fluxcd.io/replay that was last acted on.
	// +optional
	LastHandledReplay string `json:"lastHandledReplay,omitempty"`

	// Problem is the first thing that is wrong, on one line. It is empty while all is well.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// Alert sends the events of selected objects of its namespace to a Provider.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=all;fluxcd;fluxcd-notifications
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="kustomize.toolkit.fluxcd.io/substitute=disabled"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description=""
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description=""
// +kubebuilder:printcolumn:name="Matched",type="date",JSONPath=".status.lastMatched",description="How long ago an event was last selected"
// +kubebuilder:printcolumn:name="Last",type="date",JSONPath=".status.lastSent",description="How long ago a notification was last accepted by the destination"
// +kubebuilder:printcolumn:name="Pending",type="integer",JSONPath=".status.pending",description="How many notifications are on their way"
// +kubebuilder:printcolumn:name="Dead",type="integer",JSONPath=".status.dead",description="How many notifications that were given up are kept"
// +kubebuilder:printcolumn:name="Problem",type="string",JSONPath=".status.problem",description="The first thing that is wrong"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",description="",priority=1
type Alert struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AlertSpec   `json:"spec,omitempty"`
	Status AlertStatus `json:"status,omitempty"`
}

// Conditions returns the status's list of conditions, to read and to change.
func (a *Alert) Conditions() *[]metav1.Condition { return &a.Status.Conditions }

// Problem returns the status's field, to read and to change.
func (a *Alert) Problem() *string { return &a.Status.Problem }

// ShareTexts calls share with the texts that many Alerts have in common.
func (a *Alert) ShareTexts(share func(*string)) {
	for _, text := range [...]*string{&a.Kind, &a.APIVersion, &a.Spec.ProviderRef.Name, &a.Spec.EventSeverity} {
		share(text)
	}
	for i := range a.Spec.EventSources {
		source := &a.Spec.EventSources[i]
		share(&source.APIVersion)
		share(&source.Kind)
		share(&source.Name)
	}
	for _, patterns := range [...][]string{a.Spec.InclusionList, a.Spec.ExclusionList} {
		for i := range patterns {
			share(&patterns[i])
		}
	}
}

// AlertList is a list of Alerts.
//
// +kubebuilder:object:root=true
type AlertList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Alert `json:"items"`
}

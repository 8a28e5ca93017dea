package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxRecentDeliveries is how many outcomes a status shows.
const MaxRecentDeliveries = 10

// DeliveryStatus is what became of the notifications of an Alert or to a Provider. It is written at most every ten seconds, and only if
// there is news.
type DeliveryStatus struct {
	// LastDelivery is the last notification that the destination accepted.
	// +optional
	LastDelivery *DeliveryOutcome `json:"lastDelivery,omitempty"`

	// LastFailure is the last attempt that failed, or notification that was given up.
	// +optional
	LastFailure *DeliveryOutcome `json:"lastFailure,omitempty"`

	// Pending is how many notifications are on their way: they wait for their turn, for a retry or for the Provider.
	// +optional
	Pending int64 `json:"pending,omitempty"`

	// Dead is how many notifications that were given up are kept, and may be sent again.
	// +optional
	Dead int64 `json:"dead,omitempty"`

	// Delivered is how many notifications the destination accepted since countedSince.
	// +optional
	Delivered int64 `json:"delivered,omitempty"`

	// Failed is how many notifications were given up since countedSince.
	// +optional
	Failed int64 `json:"failed,omitempty"`

	// CountedSince is when the replica at work began to count, which is when it came to be the one at work.
	// +optional
	CountedSince *metav1.Time `json:"countedSince,omitempty"`

	// Recent are the last ten outcomes, the newest first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Recent []DeliveryOutcome `json:"recent,omitempty"`
}

// DeliveryOutcome is what an attempt to send a notification came to.
type DeliveryOutcome struct {
	// Time is when that was.
	// +required
	Time metav1.Time `json:"time"`

	// Object is what the event is about, as "Kind/name".
	// +optional
	Object string `json:"object,omitempty"`

	// Reason is the event's.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Outcome is "sent" when the destination accepted it, "retry" when it is tried again, "dead" when it was given up.
	// +optional
	Outcome string `json:"outcome,omitempty"`

	// Attempts is how often it was tried so far.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// Status is the HTTP status of the answer to the last attempt, where it was refused by HTTP.
	// +optional
	Status int32 `json:"status,omitempty"`

	// Class is the kind of failure, a word such as timeout, http_5xx, quota or expired.
	// +optional
	Class string `json:"class,omitempty"`

	// Failure says why it failed. Of the recent outcomes it is left out.
	// +optional
	Failure string `json:"failure,omitempty"`

	// NextTry is when it is tried again, with outcome "retry". Of the recent outcomes it is left out.
	// +optional
	NextTry *metav1.Time `json:"nextTry,omitempty"`
}

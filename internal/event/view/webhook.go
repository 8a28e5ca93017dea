package view

import "time"

// Webhook is a request for a Receiver, or several requests with the same result.
type Webhook struct {
	Namespace string `json:"namespace"`
	Receiver  string `json:"receiver"`
	// Time is when it was answered. Of several it is the last one's.
	Time time.Time `json:"time"`
	// ID is the sender's ID of the webhook, in printable ASCII. It is empty if there was none or the sender was not authenticated.
	ID string `json:"id,omitempty"`
	// Result is one of the words under which webhooks are counted, such as accepted, folded, duplicate or unauthentic.
	Result string `json:"result"`
	// Reason is the reason of a refusal, or names the filters of an accepted webhook that failed. It is safe to show.
	Reason string `json:"reason,omitempty"`
	// Targets lists the targets that it asked to reconcile, as "Kind/name" or "Kind with labels". Of very many the last are left out.
	Targets []string `json:"targets,omitempty"`
	// Count is the number of webhooks with the same result, at least 1.
	Count int64 `json:"count"`
}

package view

import "time"

// Webhook is a request that came in for a Receiver, or several that had the same result.
type Webhook struct {
	Namespace string `json:"namespace"`
	Receiver  string `json:"receiver"`
	// Time is when it was answered, the last one of several.
	Time time.Time `json:"time"`
	// ID is the one that its sender gave it, in printable ASCII, empty when there was none or the sender did not prove itself.
	ID string `json:"id,omitempty"`
	// Result is one of the words under which webhooks are counted, such as accepted, folded, duplicate or unauthentic.
	Result string `json:"result"`
	// Reason says why a webhook was refused, or of an accepted one which filters failed, safe to show.
	Reason string `json:"reason,omitempty"`
	// Targets are the targets that it asked to reconcile, as "Kind/name" or "Kind with labels". Of very many the last are left out.
	Targets []string `json:"targets,omitempty"`
	// Count is how many webhooks with the same result this stands for, at least 1.
	Count int64 `json:"count"`
}

package view

import "time"

// MaxReplay bounds the deliveries that one request may put on their way again.
const MaxReplay = 1000

// ReplayRequest asks for deliveries of a namespace to be put on their way again.
type ReplayRequest struct {
	// IDs are of deliveries that were sent or given up. When there are any, State, Since and Until are ignored.
	IDs []string `json:"ids,omitempty"`
	// Provider and Alert, where they are set, select deliveries by the names of theirs.
	Provider string `json:"provider,omitempty"`
	Alert    string `json:"alert,omitempty"`
	// State is StateDead, StateSent, or empty for both.
	State State `json:"state,omitempty"`
	// Since and Until bound the time at which a delivery came into its state.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// ReplayResult is what became of a ReplayRequest.
type ReplayResult struct {
	// Replayed counts the deliveries that were put on their way again.
	Replayed int `json:"replayed"`
	// More says that MaxReplay was reached, or that of a Provider too much was asked for, and that the same request once more replays
	// further ones.
	More bool `json:"more,omitempty"`
	// Until, where there are more, is the Until for the next request: what was given up anew since this one is left alone by it.
	Until time.Time `json:"until,omitzero"`
	// Refused says of those that were not replayed why, by a delivery's ID. Of very many some are left out.
	Refused map[string]string `json:"refused,omitempty"`
}

// TestRequest asks for one test message to be sent through a Provider.
type TestRequest struct {
	Provider string `json:"provider"`
	// Value tells one request from another: the same value is served once.
	Value string `json:"value,omitempty"`
}

// TestResult is what became of a TestRequest: the delivery that was made, whose state tells the outcome.
type TestResult struct {
	DeliveryID string `json:"deliveryID"`
}

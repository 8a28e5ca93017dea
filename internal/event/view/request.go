package view

import "time"

// MaxReplay bounds the deliveries that one request may replay.
const MaxReplay = 1000

// ReplayRequest asks to replay deliveries of a namespace.
type ReplayRequest struct {
	// IDs are of deliveries that were sent or are dead letters. If there are any, State, Since and Until are ignored.
	IDs []string `json:"ids,omitempty"`
	// Provider and Alert, if set, select deliveries by the names of their Provider and Alert.
	Provider string `json:"provider,omitempty"`
	Alert    string `json:"alert,omitempty"`
	// State is StateDead, StateSent, or empty for both.
	State State `json:"state,omitempty"`
	// Since and Until bound the time at which a delivery entered its state.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// ReplayResult is the result of a ReplayRequest.
type ReplayResult struct {
	// Replayed counts the deliveries that were published again.
	Replayed int `json:"replayed"`
	// More says that the request ended at MaxReplay, at the bound of a Provider, or at the end of its time. The same request once more
	// replays further deliveries.
	More bool `json:"more,omitempty"`
	// Until, if More is true, is the Until of the next request. That request then leaves out the deliveries that became dead letters
	// since this one.
	Until time.Time `json:"until,omitzero"`
	// Refused has the reason for each delivery that was not replayed, by its ID. Of very many some are left out. NotReplayed counts all of them.
	Refused     map[string]string `json:"refused,omitempty"`
	NotReplayed int               `json:"notReplayed,omitempty"`
}

// TestRequest asks for one test message to be sent through a Provider.
type TestRequest struct {
	Provider string `json:"provider"`
	// Value identifies the request: the same value is served once.
	Value string `json:"value,omitempty"`
}

// TestResult is the result of a TestRequest: the new delivery, whose state shows the outcome.
type TestResult struct {
	DeliveryID string `json:"deliveryID"`
}

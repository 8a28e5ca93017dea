package view

// List names one of the three lists of a namespace.
type List string

// The lists.
const (
	Deliveries List = "deliveries"
	Events     List = "events"
	Webhooks   List = "webhooks"
)

// Begun is the first item of everything that is followed: what is stored from then on will come. What was stored before is in the lists
// by then.
type Begun struct{}

// Namespaces are those of a user.
type Namespaces struct {
	Items []string `json:"items"`
	// Incomplete says that there are more namespaces than were looked at.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Health is how a Provider, an Alert or a Receiver fares.
type Health struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Ready says that all that the object asks for is in use.
	Ready bool `json:"ready"`
	// Problem is the first thing that is wrong and what its owner can do about it, empty when nothing is. An object that is ready may have
	// one, such as a destination that does not answer.
	Problem string `json:"problem,omitempty"`
}

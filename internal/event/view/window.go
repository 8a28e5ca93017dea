package view

import "time"

// List names one of the three lists of a namespace.
type List string

// The lists.
const (
	Deliveries List = "deliveries"
	Events     List = "events"
	Webhooks   List = "webhooks"
)

// Begun is the first item of every followed list. Items stored from then on follow it. Earlier items are in the lists by then.
type Begun struct{}

// Reached is an item of every followed list, from time to time: all items that were stored before At have come.
type Reached struct{ At time.Time }

// Namespaces are the namespaces of a user.
type Namespaces struct {
	Items []string `json:"items"`
	// Incomplete says that there are more namespaces than were checked.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Health is the state of a Provider, an Alert or a Receiver.
type Health struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Ready says that everything the object asks for is in use.
	Ready bool `json:"ready"`
	// Problem is the first fault and its remedy for the owner, empty if there is none. A ready object may have a problem, such as a
	// destination that does not answer.
	Problem string `json:"problem,omitempty"`
}

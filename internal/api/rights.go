package api

import "notifier/internal/event/view"

// Group is the API group of the resources in rights. The resources are in no API: they exist for roles to name.
const Group = "notification.toolkit.fluxcd.io"

// Right is an action in Group that an access review decides on.
type Right struct {
	Verb, Resource, Subresource string
	// Name is the name of the one object, empty for any.
	Name string
}

// The rights of users, beside those of the lists.
var (
	GetDelivery      = Right{Verb: "get", Resource: "deliveries"}
	GetEvent         = Right{Verb: "get", Resource: "events"}
	ReplayDeliveries = Right{Verb: "create", Resource: "deliveries", Subresource: "replay"}
)

// ListRight returns the right to read a list.
func ListRight(l view.List) Right { return Right{Verb: "list", Resource: string(l)} }

// WatchRight returns the right to follow a list.
func WatchRight(l view.List) Right { return Right{Verb: "watch", Resource: string(l)} }

// TestRight returns the right to send a test message through a Provider.
func TestRight(provider string) Right {
	return Right{Verb: "create", Resource: "providers", Subresource: "test", Name: provider}
}

// name returns the resource as a Role names it.
func (r Right) name() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

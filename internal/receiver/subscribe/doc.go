// Package subscribe triggers the Receivers of type event by the events of their own namespace.
//
// Subscriptions holds them by namespace, filled by the controllers. A Subscriber reads events while the bus lets it, on one replica at a
// time, and publishes the triggers of the Receivers that an event matches; a batch is done when its triggers are on the bus. An event whose
// object is unknown to the watchers triggers nothing (invariant E9). A Receiver that causes its own events is held back by the loop guard,
// which is kept on the bus, so that another replica goes on from it.
package subscribe

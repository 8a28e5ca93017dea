// Package subscribe triggers the Receivers of type event by the events of their own namespace.
//
// Subscriptions has the Receivers by namespace; the controllers fill it. A Subscriber reads events while the bus lets it, on one replica at
// a time, and publishes the triggers of the Receivers that an event matches. A batch is done when its triggers are on the bus. An event
// whose object is unknown to the watchers triggers nothing (invariant E9). A loop guard delays a Receiver that causes its own events. Its
// state is on the bus, so that the next worker continues from it.
package subscribe

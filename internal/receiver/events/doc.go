// Package events serves the endpoint to which Flux controllers POST events.
//
// POST / answers 202 when the event is on the bus, and 429 when the stream itself reports a duplicate. A body that is no event is 400, a
// too large one 413, an encoded one 415. Over a budget, or when the event was not stored, the answer is 503. Emitters take 429 for success
// and retry on 503, so a budget never answers 429.
//
// The handler is unauthenticated. So an event is only delivered, and has no other effect, unless its kind, namespace, name and UID are
// those of an object in the watchers' cache (E9). Controllers POST before they write a status, so of the POSTs that contradict the object's
// state one is believed until the object changes. The others are doubted, and so are those beyond 20 POSTs at once or one in ten seconds
// about one object. Doubted events have the budget of events of unknown objects, are delivered after the others, and leave a watcher free
// to publish the object's transitions.
package events

// Package events is the endpoint that Flux controllers POST events to.
//
// POST / answers 202 when the event is on the bus, 429 when the stream itself reports a duplicate, 400 for what is no
// event, 413 and 415 as above, and 503 over a budget or when the event was not stored. Emitters take 429 for success and retry
// on 503, so a budget never answers 429. The handler is unauthenticated, so an event counts for more than being delivered only
// when its kind, namespace, name and UID are those of an object in the watchers' cache (E9). Controllers POST before they write a
// status, so of the POSTs that contradict the object's state one is believed until the object changes. The others, and what is beyond
// 20 POSTs at once or one in ten seconds about one object, are doubted: they have the budget of events of unknown objects, are
// delivered behind, and do not keep a watcher from telling what happens.
package events

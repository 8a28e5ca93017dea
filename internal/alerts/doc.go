// Package alerts is the alert plane. It decides which Alerts an event concerns (Router) and sends the resulting deliveries to the
// Providers (Deliverer). Events and waiting deliveries are on the bus; no promise depends on memory.
//
// # Route
//
// A Router is the one reader of the events. For every event it asks the Table of the event's own namespace, and only that (invariants
// E1, E8). It leaves out Alerts that were made after the event was accepted: the namespace may be another tenant's by then. It merges
// the metadata for each Alert that matches, and dispatches one Delivery per Alert. Delivery IDs are a function of event, Alert and
// Provider, so an event that is routed twice yields the same deliveries. An event is done when each of its deliveries is sent, waits on
// the schedule or is a dead letter (E2). An event that is not done when its worker dies is routed again, by the Alerts and Providers of
// then: what was edited meanwhile may make a delivery that comes after those of younger events. An event that concerns many Alerts is
// routed concurrently with events of other namespaces, which do not wait for it.
//
// Package filter matches the regular expressions of Alerts within bounds. Where it lets an event pass because their time is spent, the
// Alert's health reports that.
//
// Explain returns the decision of each Alert of a namespace about an event. It uses the router's decide, within a budget of its own.
//
// # Deliver
//
// A Deliverer owns the shards that the bus gives it. One goroutine owns all of a shard's state; it starts and joins the sends and the
// writes to the bus. Each Provider has a queue with bounded depth and concurrency, a limiter where the destination publishes a limit,
// and a breaker.
//
//   - Loss: a delivery leaves the bus when it was sent and recorded as sent, written to the dead letters, or put back on the
//     schedule. Every delivery in memory is still on the bus, as its event or on the schedule.
//   - Open events: a delivery that keeps its event open for more than spillAfter, or when the bus has too many open, is put on the
//     schedule. A waiting delivery is recalled from there. Of a delivery that is being sent, a copy is kept there until the outcome is
//     known.
//   - Duplicates: a delivery that may have been sent before is looked up in the history first. It is sent twice only if the record of
//     the first send was not written or its answer not received, with the same ID (E3).
//   - Order: all known deliveries of one object to one Provider form a line, including those on the schedule. Only the head of a line
//     is sent, and the next one when the outcome of the head is on the bus (E4). At takeover the shard reads the rescheduled
//     deliveries from the bus. The open events are routed again, and the rescheduled deliveries are sent after that. Deliveries of
//     different objects overtake each other: errors are sent first, and events that their objects do not confirm last (E9).
//   - Waiting: a queue keeps the deliveries that it will soon send. The rest is written to the schedule once, for the end of its
//     lifetime, and read from there in the order of sending when the queue has space for it and the namespace may have more in memory
//     (recall.go). So a backlog is sent at the pace of its destination, waiting costs no writes, and the loop waits neither for a
//     destination nor for the bus (E5).
//   - Shares: a namespace's quota of waiting deliveries is divided evenly among its Providers that have any. A Provider over its
//     share gives up its oldest (share). Deliveries that fit in memory do not count until they are put on the schedule: a burst costs
//     nothing at a destination that accepts it. Deliveries of an unsupported type are given up at once.
//   - Losses: every delivery that is given up is counted, and reported on its Alert and its Provider by a Kubernetes Event and a
//     condition.
//   - Outcomes: for each Alert and Provider the Ledger has the outcomes of its deliveries in this term, and the numbers of waiting
//     deliveries and dead letters. At takeover the deliveries on the bus are counted anew: for a Provider at once, for an Alert when
//     the Alert of each delivery was read. The number of dead letters is compared with the bus every minute, since the bus drops old
//     ones by itself, or later if they change meanwhile.
//   - Replay: the dead letters of a Provider within ReplayWindow are sent after all when the Provider or a Secret of it is changed, or
//     once when the destination accepts a delivery after a refusal.
//   - Retry: after 2, 4, 8, 16, 32, then 50 seconds, from the second hour slowly growing to 500 seconds, all ±20 %. A destination's
//     Retry-After is honoured up to 5 minutes, and the period of a rate limit that its API names up to an hour. Both delay its whole queue.
//     When the Provider's configuration changes, these waits end and what waits for a retry is recalled. MaxAge, 24 hours by default, after
//     its first attempt, or its routing without one, a delivery becomes a dead letter. Waiting for a limiter, a breaker or a Provider that
//     does not exist is not an attempt.
//   - Ownership: the deliveries of an Alert that was made anew are given up at once, and those of an Alert that is gone after a minute
//     (an informer may lag), reason OwnerGone. So are, after the same minute, those of a Provider that is gone but existed when the event
//     was routed. A Provider is looked up by name at every attempt: a new one of the same name, made within the minute, gets the waiting
//     deliveries, as the Alert that names it is the same. A suspended Provider's deliveries become dead letters, reason Suspended; events
//     that occur while it is suspended are not routed to it. Suspending an Alert does not recall its routed deliveries.
//   - Panics: a Sender that panics fails that attempt; the third such attempt is a permanent failure.
//
// The state of a Provider or object is dropped when its last delivery has ended and ten minutes have passed. The number of deliveries
// is bounded by the quota per namespace.
package alerts

// Package alerts is the alert plane: it decides which Alerts an event concerns (Router) and brings what follows to the
// Providers (Deliverer). Between the two, and before the first, stands the bus; nothing is promised from memory.
//
// # Route
//
// A Router is the one reader of the events. For every event it asks the Table of the event's own namespace, and only that
// (invariants E1, E8), leaves out the Alerts that were made after the event was accepted (the namespace may be another tenant's by then),
// merges the metadata for each Alert that matches, and dispatches one Delivery an Alert. Delivery IDs are a function of event, Alert and
// Provider, so an event that is routed twice yields the same deliveries. An event is done when each of its deliveries is on the bus as sent,
// waiting or dead (E2). An event that concerns many Alerts is routed beside those of other namespaces, which do not wait for it.
//
// Regular expressions are tenant input. They are bounded when an Alert is compiled and timed when they run: an event costs at
// most eventTime, a namespace at most its share of a window, all namespaces together at most half of it. A match that is cut
// short counts as the one that sends the event: what is lost is an exclusion, never a notification, and the Alert's health says so.
//
// Explain tells what each Alert of a namespace decides about an event. It asks what the router asks (decide), within a budget of its own.
//
// # Deliver
//
// A Deliverer owns the shards that the bus gives it; one shard is one goroutine that owns all of the shard's state, plus the
// sends and the writes to the bus that it starts and joins. For each Provider there is a queue with bounded depth and
// concurrency, a limiter where the destination publishes a limit, and a breaker.
//
//   - Loss: a delivery leaves the bus when it was sent and recorded as sent, written to the dead letters, or put back on the
//     schedule. Whatever is held in memory is still on the bus, as its event or on the schedule.
//   - Open events: a delivery that holds its event for more than spillAfter, or when the bus has too many open, is put on the schedule: what
//     waits is recalled from there, of what is being sent a copy is kept there until the outcome is known.
//   - Duplicates: a delivery that may have been sent before is looked up in the history first. It is sent twice only if the
//     record of the first send was not written or its answer not received, with the same ID (E3).
//   - Order: all known deliveries of one object to one Provider form a line, those on the schedule included; only the head of a
//     line is sent, and the next one when the outcome of the head is on the bus (E4). At takeover one look at the bus tells what
//     was rescheduled; the events that were not done are routed again, and what was rescheduled is sent once they were.
//     Deliveries of different objects overtake each other: errors go first, and events that their objects do not bear out last (E9).
//   - Waiting: a queue holds what it will soon send. The rest is written to the schedule once, for the end of its lifetime, and read
//     from there, the oldest first, when the queue has room for it (recall.go). So a backlog goes at the pace of its destination,
//     waiting costs no writes, and the loop waits neither for a destination nor for the bus (E5).
//   - Shares: what a namespace may have waiting is divided evenly among its Providers that have something waiting; one that is over
//     its share gives up its oldest (share). What memory has room for does not wait until it is put on the schedule: many events at once cost
//     a destination that takes them nothing. For a type that nobody supports nothing is kept.
//   - Losses: what is given up for any reason is counted, and told on its Alert and its Provider by a Kubernetes Event and a condition.
//   - Outcomes: the Ledger has of each Alert and Provider what became of its deliveries in this term, what waits and what is dead. At takeover
//     what is on the bus is counted anew: of a Provider at once, of an Alert when it was read whose each delivery is. The number of dead letters
//     is compared with the bus every minute, since the bus drops old ones by itself.
//   - Replay: what died of a Provider within ReplayWindow is sent after all when the Provider or a Secret of it is changed, or once
//     when the destination takes something after a refusal.
//   - Retry: after 2, 4, 8, 16, 32, then 50 seconds, from the second hour slowly growing to 500 seconds, all ±20 %; a
//     destination's Retry-After is honoured up to 5 minutes and holds back its whole queue. After MaxAge, 24 hours, the delivery goes to
//     the dead letters. Waiting for a limiter, a breaker or a Provider that does not exist is not an attempt.
//   - Ownership: an Alert that is gone, or was made anew, takes its deliveries with it after a minute (an informer may lag),
//     reason OwnerGone, and so does a Provider that existed when the event was routed. A Provider is looked up by name at every
//     attempt: a new one of the same name, made within the minute, gets what waits, as the Alert that names it is the same. A suspended Provider's deliveries go to the dead letters, reason Suspended;
//     events that occur while it is suspended are not routed to it. Suspending an Alert does not recall what was routed.
//   - Panics: a Sender that panics fails that attempt; the third such attempt is a permanent failure.
//
// Everything kept per Provider or object is dropped when the last of its deliveries is settled and ten minutes have passed; the
// number of deliveries is bounded by the quota per namespace.
package alerts

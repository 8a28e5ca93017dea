// Package watch follows the Flux objects of the cluster: it keeps a small cache of them on every replica, and on the worker it turns
// their changes of state into events.
//
// # Cache
//
// Run watches the definitions (CRDs) of the kinds in Kinds and keeps one informer for each kind that the cluster serves. Objects are
// trimmed on arrival to identity, labels and annotations up to their bounds, and the outcome of their last
// reconciliation. Lookup and Select answer from that cache and never from the network; HasSynced reports when it is complete.
//
// # Transitions
//
// Lead publishes each object's terminal states (succeeded or failed, at a revision), one event a transition. Flux's controllers POST
// most of them as well. POSTs are published as they arrive, and the watcher only fills the gaps:
//
//   - The bus's key-value store keeps each object's last published state. Only a terminal state unlike the last published one is a
//     transition. It waits until it has settled (docs/adr/0019) and is then published, unless a POST about the same UID with the same
//     outcome and revision was accepted. Such a POST is used up, and the transition is recorded as published. A POST proves nothing
//     (invariant E9), so it counts under conditions. The POST of a failure must repeat the message in the object's own conditions. The
//     POST of a success must be at most seconds older than the state. A POST that the events endpoint doubted does not count, nor does one
//     that a watcher's event of the object followed: that was told last.
//
//   - One state of an object waits at a time. A later one of its outcome replaces it, and it is dropped when the object has left it. If a
//     POST told it, it is recorded instead, so that the return from it is a transition. What a POST told last before a crash is corrected by
//     the next worker if the object is in another outcome.
//
//   - Order: a transition is published after the one before it was recorded. If an event of the object was published since it was
//     decided, it is decided anew, up to maxOvertaken times. Objects are independent of each other.
//
//   - Loss: an event is published before it is recorded, with an ID derived from the recorded state. After a crash between the two the
//     next worker first records the transition: if the object has returned to the recorded state meanwhile, its return would otherwise
//     not be published. Waiting transitions are lost in a crash. A new worker finds the state they led to, because it differs from the
//     record, and publishes it unless the last POST about the object shows that it was published. It decides nothing before it has read back
//     the events since shortly before the newest record.
//
//   - Back-pressure: when the bus fails, transitions wait in memory and are retried. They point into the cache and copy nothing.
//
// The first time a kind is seen on a cluster its objects are recorded without an event.
package watch

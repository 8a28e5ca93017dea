// Package watch follows the Flux objects of the cluster: it keeps a small cache of them on every replica, and on the
// replica that leads it turns their changes of state into events.
//
// # Cache
//
// Run watches the definitions (CRDs) of the kinds in Kinds and keeps one informer for each kind that the cluster serves.
// Objects are trimmed on arrival to identity, labels, event annotations and the outcome of their last reconciliation.
// Lookup and Select answer from that cache and never from the network; HasSynced says when it is complete.
//
// # Transitions
//
// Lead publishes each object's terminal states (succeeded or failed, at a revision), one event a transition. Flux's
// controllers POST most of them as well; those are delivered as they come, and the watcher only fills the gaps:
//
//   - What was last published of an object is kept in the bus's key-value store. Only a terminal state unlike the last published one is a
//     transition. It waits until it has settled (docs/adr/0019) and is then published, unless a POST about the same UID with the
//     same outcome and revision came in: that POST is used up, and the transition is recorded as published. A POST proves nothing (invariant
//     E9), so one of a failure counts only if it says what the object's own conditions say, one of a success only if it came at most
//     seconds before the state, and one that the door doubted not at all.
//   - One state of an object waits at a time: a later one of its outcome takes its place, and it is dropped when the object has left it.
//   - Order: a transition is published after the one before it was recorded, and only if no event of the object came in since it was
//     decided. Objects are independent of each other.
//   - Loss: an event is published before it is recorded, with an ID derived from what is recorded, so a crash between the
//     two repeats it under the same ID. Transitions that wait are lost in a crash; a new leader finds the state they led to,
//     because it differs from what is recorded, and publishes it unless the object's last event shows that it was published.
//   - Back-pressure: when the bus fails, transitions wait in memory and are tried again. They point into the cache and copy nothing.
//
// The first time a kind is seen on a cluster its objects are recorded silently.
package watch

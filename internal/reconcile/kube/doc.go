// Package kube is the small layer over client-go that notifier's controllers stand on: a typed informer, a queue loop, a
// tolerant client for custom resources, a writer of status, the catalogue of the kinds that are served, and the little that all of
// them read versions and wait with.
//
// The contract:
//
//   - Two phases. Constructors register and do no I/O and start nothing. Run blocks, waits for what it reads to be synced, works,
//     and joins every goroutine that it started.
//   - Handlers only enqueue. A key is worked on by one worker at a time; a key that is enqueued meanwhile is worked on again.
//     Namespaces take turns, so that none waits for another's backlog.
//   - Level, not edge. A reconcile function reads the present state from the informer; it must be idempotent, and it is called
//     again, with a growing back-off, until it returns nil or an error marked Permanent.
//   - Controller.Synced closes when every object that was present at start has been reconciled once.
//   - One bad object harms itself only: what does not decode arrives without its spec and with Undecodable set, and a reconcile
//     that panics is an error of that key.
//   - Objects in the cache are shared and never changed: a writer copies first.
package kube

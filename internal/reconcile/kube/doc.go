// Package kube is the small layer over client-go under notifier's controllers: a typed informer, a queue loop, a tolerant client for
// custom resources, a writer of status, the catalogue of served kinds, helpers to compare versions and to wait, and the routing of
// client-go's log lines and counts of requests, which are global.
//
// The contract:
//
//   - Two phases. Constructors register, do no I/O and start nothing. Run blocks, waits until the caches that it reads are synced,
//     works, and joins every goroutine that it started.
//   - Handlers only enqueue. One worker at a time reconciles a key; a key that is enqueued meanwhile is reconciled again. Namespaces
//     take turns, so that none waits for another's backlog.
//   - Level, not edge. A reconcile function reads the present state from the informer. It must be idempotent, and it is called again,
//     with a growing back-off, until it returns nil or an error marked Permanent.
//   - Controller.Synced closes when every object that was present at start has been reconciled once.
//   - One bad object harms itself only: if its spec does not decode it arrives without the spec and with Undecodable set, and a
//     reconcile that panics is an error of that key.
//   - Objects in the cache are shared and immutable: a writer copies first.
package kube

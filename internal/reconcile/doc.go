// Package reconcile has the controllers of the three kinds. It compiles Receivers, Alerts and Providers into the tables that the receiver
// and alert packages read, and reports the outcome to the owners as status and Events.
//
// # Compile everywhere, write once
//
// Every replica watches the three kinds and the Secrets they name, and fills its own tables. Only the replica that leads
// (Reconciler.Lead) writes: status, the removal of a finalizer that Flux left, and Events about compiling. Compiling and writing have
// separate queues. A slow or refused write never delays a compile, and a retried write never compiles again.
//
// # The compile
//
// A compile is a pure function of the object and its Secrets. It returns a verdict, which becomes the conditions, and the compiled
// object, which is served:
//
//   - A Receiver whose spec or Secret is bad serves nothing. It fails closed: a bad edit also removes the targets and tokens served before,
//     since the edit may have been meant to remove them. Entries in other namespaces, and those beyond a limit, are left out and named
//     in condition Serving; the others are served.
//   - A Provider with a bad spec serves nothing either. No accepted event is lost by it, since deliveries to a Provider that cannot
//     be compiled wait for it (invariant E2).
//   - A bad pattern of an Alert never matches; the rest of the Alert is served. An Alert whose inclusion list has no good pattern, or
//     whose spec has another fault, matches nothing. The patterns before the edit are never used: they could publish something that
//     the edit meant to hide.
//   - When a Secret cannot be read for a reason unrelated to the Secret (the API server is away), the last compiled object stays, unless
//     it is of a former object of the same name, or was suspended since.
//
// # The status
//
// Condition Matching counts, from the watchers' cache, the objects of its own namespace that an Alert or a Receiver names, and names the
// entries that have none. The count is made when a status is written, five seconds or more after an object of the namespace is made,
// relabelled or deleted, and every ten minutes.
//
// The outcome of the deliveries of an Alert or a Provider is read from alerts.Ledger, which reports an object at most every ten seconds.
// Conditions that another worker wrote stay until this one has a newer fact, those about losses and expensive patterns for an hour.
//
// # Start
//
// Reconciler.Complete closes when every object that was present at start is compiled. Until then the process is not ready and answers
// unknown webhook paths with 503. An object whose Secret the API server fails to return (an internal error, a refusal) is no longer
// waited for after its third attempt: one tenant's broken Secret must not keep the process from starting.
//
// # Secrets
//
// Package secrets reads and watches the Secrets that Receivers and Providers name, and decides which may be used. A change of a Secret
// compiles its users again.
package reconcile

// Package reconcile is everything of notifier that talks to Kubernetes: it compiles Receivers, Alerts and Providers into the tables
// that the edge and the alert plane read, and tells their owners how that went.
//
// # Compile everywhere, write once
//
// Every replica watches the three kinds and the Secrets they name and fills its own tables. Only the replica that leads (Leader)
// writes: status, the removal of a finalizer that Flux left, and Events about compiling. The two are separate queues, so that a
// slow or refused write never delays a compile, and a retried write never compiles again.
//
// # What a spec becomes
//
// A compile is a pure function of the object and its Secrets. It ends in a verdict, which becomes the conditions, and in what is
// served:
//
//   - A Receiver whose spec or Secret is bad serves nothing. It fails closed: what it served before a bad edit goes away, since
//     that edit may have been meant to take a target or a token away. Entries in other namespaces, and those beyond a limit, are left
//     out and named in condition Serving; the others are served.
//   - An Alert with a bad pattern, and a Provider with a bad spec, serve nothing new either: matching with the patterns before
//     the edit could tell somebody what the edit meant to hide. An accepted event is not lost by it, since deliveries to a
//     Provider that cannot be compiled wait for it (invariant E2).
//   - When a Secret cannot be read for a reason that says nothing about the Secret (the API server is away), what was served
//     stays.
//
// # What is shown
//
// Condition Matching counts, from the watchers' cache, the objects of its own namespace that an Alert or a Receiver names, and tells which
// entries have none. It is found out when a status is written and again after a while, a minute as long as something is missing.
//
// What became of the deliveries of an Alert or a Provider is read from the Ledger, which tells of an object at most every ten seconds. What
// another worker showed stays until this one knows better.
//
// # Start
//
// Reconciler.Complete closes when every object that was present at start is compiled; until then the process is not ready and
// answers unknown webhook paths with 503. An object that the API server itself cannot give the Secret of (an internal error, a
// refusal) is not waited for after its third attempt: one tenant's broken Secret must not keep the process from starting.
//
// # Secrets
//
// The process may read all Secrets, so the promise is in the code: secrets reads those that Receivers and Providers name, from
// their own namespace, one by one, and keeps the values of the keys that are used, once for all who use them and each up to a bound.
// Its source has no method to list.
//
// Who makes a Provider says where a Secret is sent, and need not be one who may read it. So a Secret that belongs to the cluster or
// to a program, which its type tells, is used for nothing (useOf), and Options.RequireSecretLabel confines that to Secrets whose
// owners said so.
package reconcile

// Package apply turns pending triggers into reconcile requests: a merge patch of one annotation on the tenant's object, written
// as the tenant's service account.
//
// # Contract
//
//   - Identity (T1, T2): a write names the namespace of the trigger, which is its Receiver's, and impersonates a service account of
//     that namespace. The account, and the permission to request the target at all, are read from the live Receiver at the time of the
//     write. The message on the bus is trusted with neither. An account that cannot be named is refused; the process's own identity
//     never replaces it.
//
//   - Pace (T4): an object gets at most one request per Options.Interval, from the answer to one to the sending of the next, for any
//     number of triggers, Receivers and accounts. A new worker waits one interval first. Namespaces take turns
//     under a budget that is shared with nothing else.
//
//   - Loss: a trigger is done when each of its objects got a request stamped no earlier than the trigger was accepted, or does not
//     exist, or was refused for refusedFor. Of the triggers of one key the newest counts. The message of the last one is kept until the
//     trigger is done: it is the message on disk. Each trigger that is delivered, in any order, gets a request that is sent after it
//     was taken, since other webhooks may have been coalesced into it. An unfinished trigger goes back to the bus at the end of the
//     term.
//
//   - Replicas: a trigger may be delivered before this replica knows its Receiver, its target in the Receiver, or the object that a
//     filter chose. Such a trigger is tried for unseenFor, unless the known state of the Receiver is the newer one.
//
//   - Refusal: from the first refusal until the write succeeds, its object is gone, or the Receiver no longer asks for it, the Receiver's
//     Health names the account and the action it is refused.
//
//   - Cost (T6): under the lock that all tenants share no claim is resolved and nothing is searched for. A claim to an object costs the
//     same for any number of claims to it.
//
//   - Groups: an object is the same whether its Receiver names an API version or leaves it out. Without a version, the only group that
//     serves the kind is meant; if several groups serve it, the target is refused. Discovery runs beside the work: it reads all that
//     the cluster serves at once, and at most once in ten seconds. For kinds that are not found, one namespace may cause six such reads
//     at once and one a minute (kube.Catalogue).
//
// The Applier keeps one trigger for each (target, account) of the existing Receivers; where a filter chooses the objects, one for each
// (object, account) that they select. It keeps one slot for each object they select. All are bounded by the cluster's objects.
package apply

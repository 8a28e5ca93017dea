// Package apply turns pending triggers into reconcile requests: a merge patch of one annotation on the tenant's object, written
// as the tenant's service account.
//
// # Contract
//
//   - Identity (T1, T2): a write names the namespace of the trigger, which is its Receiver's, and impersonates a service account
//     of that namespace. The account, and the permission to ask for the target at all, are read from the live Receiver at the
//     time of the write; the message on the bus is trusted with neither. An account that cannot be named is refused, never
//     replaced by the process's own identity.
//
//   - Pace (T4): an object gets at most one request per Options.Interval, from the answer to one to the sending of the next,
//     whatever the number of triggers, Receivers and accounts. Who takes over a shard waits one interval first. Namespaces take
//     turns under a budget that is shared with nothing else.
//
//   - Loss: a trigger is done when each of its objects got a request stamped no earlier than the trigger was accepted, or is
//     gone, or was refused for RefusedFor. Of the triggers of one key the newest counts, and the message of the last one is held
//     until then: it is the one on disk. Each that comes, in whichever order, gets a request that is sent after it was taken, since
//     webhooks may ride on it. What is not done when a shard is given up goes back to the bus.
//
//   - Replicas: a trigger may come before what it is about. One whose Receiver, whose target in it, or whose object that a filter
//     chose is not known here is tried for UnseenFor, unless the state of the Receiver that is known is the newer one.
//
//   - Refusal: from the first refusal on, the Receiver's Health says who may not do what, until the write succeeds.
//
//   - Cost (T6): under the lock that all tenants share no claim is resolved, and nothing is searched for: a claim to an object
//     costs the same however many there are to it.
//
//   - Groups: an object is the same whether its Receiver names an API version or leaves it out. Left out, the only group that
//     serves the kind is meant; of several groups none is, which is a refusal. What the cluster serves is asked for beside the
//     work, all of it at once and at most once in ten seconds; one namespace has it asked for kinds that are not found six times at
//     once and once a minute (kube.Catalogue).
//
// Held are one trigger for each (target, account) of the Receivers that there are, where a filter chooses for each (object,
// account) that they select, and one slot for each object they select: all are bounded by what is in the cluster.
package apply

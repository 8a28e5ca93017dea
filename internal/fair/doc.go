// Package fair bounds the effect of one tenant's load on other tenants. A tenant is a namespace, and everything here is keyed by a
// namespace or by a part of one. There are four types, one for each shared resource, beside Lines, which bounds the lines of a log by
// Limiters, and Heap, for the orders that their users keep:
//
//   - Queue orders work: namespaces take turns, so a namespace waits for its own backlog and for at most one item of each other.
//   - Limiters bound how often something happens: one token bucket for each key, for a bounded number of keys.
//   - Share bounds processor time: how long the work of one namespace, and of all together, may run within a window.
//   - Capacity bounds concurrent use, at nested levels: a path within its namespace within the process. A namespace can have a
//     reserve, which is free even when all others have taken the rest. Capacities have one Capacity for each key in use.
//
// The contract:
//
//   - Memory is bounded for any keys from outside. Limiters and Share forget the key that was used longest ago, which then has its
//     whole allowance again. So beyond the bound they admit too much, and never refuse a key for the number of others. A Share remembers
//     only the namespaces that spent something; queries leave no trace. Queue and Capacities keep a key only while some of it waits
//     or is in use.
//   - All types but Queue and Heap can be used by many goroutines at once. The lock of its owner protects these two.
//   - Nothing starts a goroutine, and only Sleep starts a timer. Time is time.Now, so that testing/synctest controls it.
package fair

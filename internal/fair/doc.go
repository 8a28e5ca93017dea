// Package fair keeps one tenant's load from being another tenant's cost. A tenant is a namespace, and everything here is keyed by one, or
// by something of it. There are four types, one for each thing that tenants share:
//
//   - Queue orders work: namespaces take turns, so that a namespace waits for its own backlog and for at most one item of each other.
//   - Limiters bound how often something happens: one token bucket a key, for a bounded number of keys.
//   - Share bounds processor time: how long the work of one namespace, and of all together, may run within a window.
//   - Capacity bounds what is in use at once, at nested levels: a path within its namespace within the process. A namespace can have a
//     reserve, which is there for it when all others have taken the rest. Capacities are those of the keys that are in use.
//
// The contract:
//
//   - Memory is bounded whatever keys the outside sends. Limiters and Share forget the key that was used longest ago, which then has its
//     whole allowance again: beyond the bound they admit too much, and refuse nobody for the keys of others. A Share remembers those that
//     spent something, and none for being asked about. Queue and Capacities hold a key only while something of it waits or is in use.
//   - All types but Queue can be used by many goroutines at once. A Queue is guarded by the lock of what it is a part of.
//   - Nothing starts a goroutine, and a timer only Sleep. Time is time.Now, so that testing/synctest governs it.
package fair

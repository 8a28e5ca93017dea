// Package receiver serves webhooks: the Table of hooks by path, the handler, its answers, and statistics of each Receiver. It faces the
// internet and knows nothing of Kubernetes or of the bus: reconcile fills the Table, and the bus implements the small interfaces Triggers
// and Reports.
//
// Its packages are server (listeners), verify (the types), oidc (issuers' keys), cel (expressions and filters), events (POST of events),
// subscribe (type event), limit (rates, memory, processor time) and answer (what is answered and logged).
//
// # Webhooks
//
// A request meets, in this order: the connection cap and the header limits of package server; the path; the caps on what is read at
// once; the signature; the Receiver's state; the event's type; the Receiver's and the namespace's budget; the bus. Until the path is known the
// answer has no body and is the same for every path that is not served. Once it is known, errors are {"reason": "..."}.
//
//	200  every target's trigger is on the bus, or the sender asked for no trigger (ping)
//	202  the same, and the Receiver or its namespace is over its budget: {"accepted": true, "folded": true}
//	400  not authentic, an event that is not listed, or a body that could not be read
//	404  no Receiver serves this path
//	405  the path is known, the method is not POST, and its type takes no other: generic and generic-hmac take any
//	413  the body is above 3 MiB
//	415  the body is encoded
//	429  an unknown path, or a failed authentication, over its budget; never an authentic webhook
//	503  not stored; too much is being read; suspended; an issuer's keys are not known; or the Receivers are
//	     not all compiled yet
//
// A path's digest does not tell where the token, the name and the namespace end, so Receivers of several namespaces can have one path: up
// to eight are served there, at least one of each namespace among so many. Each verifies for itself, at the same time, and what it finds
// authentic is for it; to whom the path alone is proof, for that one only if it is refused by all others, and not at all where one has the
// path without a token. What one makes of it shows to no other, nor to the sender while another takes it, but that it was not stored. The
// body is read once, after the headers satisfied one of them, into capacity of the path and of the process.
//
// A 2xx is written after the bus acknowledged every trigger (invariant T3), each stamped when its webhook came (T4). A flood is coalesced
// behind this package: by what waits on the bus, by the bus's commits and by the applier. A bus that does not answer is a 503 after
// 4 seconds, and a sender that hangs up waits for nothing (ADR 0009).
//
// What one sender can occupy is bounded per path, per namespace and in all, with a reserve for each namespace (T6), so the
// requests that a flood refuses are its own. Address budgets apply to unknown paths alone: one ingress or Git host carries the
// webhooks of all tenants. Who is behind a proxy is believed of the proxies that the administrator named, and of nobody else; the
// connection cap counts by the connection's own peer in any case.
//
// The filters and CDEvents of one namespace's webhooks take turns and a quarter of a processor, and are 503 beyond it. Those that are
// slow, or have a large document, wait for each other alone. Expressions are compiled at a quarter of the processors, at least one,
// of which a namespace has a quarter once it has used up some seconds.
//
// Budgets are token buckets. One per address evicts the address that was used longest ago of 8192; the others live as long as
// their path, Receiver or namespace, and an edit refills none of them; a namespace's until it is full, though its Receivers have gone.
//
// # What became of each
//
// The Reporter tells of a Receiver every five seconds while there is news of it that a sender who knows the token caused, and once a minute
// of refusals alone, ten Receivers a second at most. With each report go the results of the webhooks since the one before: the newest
// twenty by senders who know the token one by one, with their IDs and targets, all others counted under their result. So an unauthenticated
// webhook is never a write of its own (invariant T5), and nobody's waits for one.
//
// # Ownership
//
// Table is safe for concurrent use; hooks handed to it are not changed afterwards. Everything that is keyed by outside input is
// bounded and says how it evicts.
package receiver

// Package receiver serves webhooks: the Table of hooks by path, the handler, its answers, and statistics of each Receiver. It faces the
// internet and knows nothing of Kubernetes or of the bus: reconcile fills the Table, and the bus implements the small interfaces Triggers,
// Reports and Records.
//
// Its packages are server (listeners), verify (the types), oidc (issuers' keys), cel (expressions and filters), events (POST of events),
// subscribe (type event), limit (rates, memory, processor time) and answer (answers and their log lines).
//
// # Webhooks
//
// A request is checked in this order: the connection cap and the header limits of package server; the path; the caps on concurrent reading;
// the signature; the Receiver's state; the event's type; the caps on concurrent storing; the budgets of the Receiver and of its namespace;
// the bus. Until the path is known the answer has no body and is the same for every path that is not served. Once it is known, errors are
// {"reason": "..."}.
//
//	200  every target's trigger is on the bus, or the sender asked for no trigger (ping)
//	202  the same, and the Receiver or its namespace is over its budget: {"accepted": true, "folded": true}
//	400  not authentic, an event that is not listed, or a body that could not be read
//	404  no Receiver serves this path
//	405  the path is known, the method is not POST, and its type takes no other: generic and generic-hmac take any
//	413  the body is above 3 MiB
//	415  the body is encoded
//	429  an unknown path, or a failed authentication, over its budget; never an authentic webhook
//	503  not stored; too much is being read or stored; suspended; an issuer's keys are not known; the Receiver cannot be
//	     served now; or the Receivers are not all compiled yet
//
// A path is the digest of token, name and namespace without separators, so Receivers of several namespaces can have one path. Up to eight
// are served there, at least one of each namespace among so many. All of them verify a webhook at the same time, each for itself, and each
// acts on the webhooks that it finds authentic. A Receiver for which the path alone is proof acts only if all others refuse, and not at all
// if a Receiver without a token has the path. One Receiver's outcome is not shown to another. Nor is it shown to the sender while another
// Receiver accepts the webhook, except that the webhook was not stored. The body is read once, after the headers satisfied one Receiver,
// within the capacity of the path and of the process.
//
// A 2xx is written after the bus acknowledged every trigger (invariant T3), each stamped with the webhook's arrival (T4). A flood is
// coalesced after this package: by the triggers that wait on the bus, by the bus's commits and by the applier. If the bus does not answer,
// the webhook is a 503 after 4 seconds. A sender that hangs up ends its request (ADR 0009).
//
// The use of one sender is bounded per path, per namespace and in all, with a reserve for each namespace (T6), so a flood refuses only its
// own requests. Address budgets apply to unknown paths alone: one ingress or Git host carries the webhooks of all tenants. A client's
// address behind a proxy is read only from the proxies that the administrator named. The connection cap always counts by the connection's
// own peer.
//
// The filters of one namespace's webhooks, and the parsing of bodies of more than a KiB, take turns and may use a quarter of a processor;
// beyond it they are 503. Those of slow namespaces wait for each other, and so do large documents. Expressions are compiled at a quarter of the
// processors, at least one. A namespace that has used up some seconds may use a quarter of one processor for them.
//
// Budgets are token buckets. Of the buckets per address 8192 are kept, and the least recently used is evicted. The others live as long as
// their path, Receiver or namespace, and an edit refills none of them. A namespace's bucket lives until it is full, even if its Receivers
// are deleted.
//
// # Reports
//
// The Reporter reports a Receiver every five seconds while senders that know the token cause news, and once a minute if there are only
// refusals. It reports at most ten Receivers a second. Each report carries the results of the webhooks since the previous report. The
// newest twenty by senders that know the token are single results with their IDs and targets; all others are counted under their result. So
// an unauthenticated webhook is never a write of its own (invariant T5), and no webhook waits for a write.
//
// # Ownership
//
// Table is safe for concurrent use; hooks put into it are not changed afterwards. Everything that is keyed by outside input is bounded and
// documents its eviction.
package receiver

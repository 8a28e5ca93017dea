// Package receiver is the HTTP edge: the webhooks that Receivers serve to the outside, and the door that Flux controllers
// POST events to. It faces the internet and knows nothing of Kubernetes or of the bus: reconcile fills the Table, the bus
// stands behind the small interfaces Triggers and Events.
//
// # Webhooks
//
// A request meets, in this order: the connection cap and the header limits of Server; the path; the caps on what is read at
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
//	429  an unknown path, or a failed authentication, over its budget; never an authentic delivery
//	503  not stored; too much is being read; suspended; an issuer's keys are not known; or the Receivers are
//	     not all compiled yet
//
// A path's digest does not tell where the token, the name and the namespace end, so Receivers of several namespaces can have one path: up
// to eight stand behind it, at least one of each namespace among so many. Each verifies for itself, at the same time, and what it finds
// authentic is for it; to whom the path alone is proof, for that one only if it is refused by all others, and not at all where one has the
// path without a token. What one makes of it shows to no other, nor to the sender while another takes it, but that it was not stored. The
// body is read once, after the headers satisfied one of them, into room of the path and of the process.
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
// # Issuers
//
// Types whose senders have tokens of an OpenID Connect issuer share one cache of issuers' keys. A fetch is shared by all that
// wait for it, and an issuer is asked at most once in ten seconds, whether for a key that nobody knows or because it is down. A
// key that its issuer drops is refused after five minutes; keys outlive an issuer that does not answer by an hour.
// Of the answer, at most 256 KiB, nothing is kept but 32 keys with their IDs, of at most 256 bytes, and their algorithms.
// RSA keys have 2048 to 4096 bits. A token is tried with at most four keys, of those that it names and that are for its algorithm. Its
// times are whole numbers of seconds, in their order, and its end is at most 400 days ahead; no claim may be named like one of those that
// decide, but in another case.
//
// Each namespace has a share of its own: 32 issuers, of which it forgets the one that it used longest ago, but none that it had asked
// within ten seconds, and those that it has not used for an hour; two fetches at once, one a second, sixteen in a burst, and eight in
// ten seconds from one host. Beyond it its tokens are answered 503. The issuer is remembered as long as one namespace does, Google's
// for good.
//
// All expressions over one token's claims share the work of one evaluation, which bounds the memory of their values to a few MiB, and
// a quarter of a second. They have their namespace's turn, like filters; a token whose turn does not come in time is answered 503.
//
// # Events
//
// POST / answers 202 when the event is on the bus, 429 when the stream itself reports a duplicate, 400 for what is no
// event, 413 and 415 as above, and 503 over a budget or when the event was not stored. Emitters take 429 for success and retry
// on 503, so a budget never answers 429. The door is unauthenticated, so an event counts for more than being delivered only
// when its kind, namespace, name and UID are those of an object in the watchers' cache (E9). Controllers POST before they write a
// status, so of the POSTs that contradict the object's state one is believed until the object changes. The others, and what is beyond
// 20 POSTs at once or one in ten seconds about one object, are doubted: they have the budget of events of unknown objects, are
// delivered behind, and do not keep a watcher from telling what happens.
//
// # Ownership
//
// Table is safe for concurrent use; hooks handed to it are not changed afterwards. Server.Run returns when its requests are
// answered, or when the drain time is over and their connections are closed. Everything that is keyed by outside input is
// bounded and says how it evicts.
package receiver

// Package provider sends notifications to the destinations that tenants configure. Each destination type is a package below it (slack,
// msteams, generic); package registry lists them. This package has their common parts: the Config that a Sender is built from, the
// HTTP Client that it sends with, and the classes of failed sends.
//
// # Contract
//
// A Sender is built once, when a spec or its Secret changes. Any number of goroutines may then use it. Send makes one attempt and
// returns when its outcome is known, at the latest after Config.Timeout. It never retries, queues or limits: the deliverer does. Its
// result is nil or an *event.Error:
//
//   - nil: the destination answered 2xx. The answer's body does not matter, unless the type says otherwise (Slack's API), or it is a web
//     page: an API has none, and a place to sign in has no message. Types whose destination may be any server take pages.
//   - event.Retry: no connection, no answer in time, a web page, a certificate that does not verify, or 408, 425, 429, 5xx, with the
//     destination's Retry-After. A bad certificate is retried, since certificates expire, are rotated and are repaired without an edit of
//     the Provider; meanwhile the reason names the fault to its owner. Every other failure at a proxy is retried too.
//   - event.Permanent: any other 4xx; a redirect (none is followed); an address that may not be reached.
//
// No type knows whether its Provider or its Alert is suspended. The router and the deliverer keep notifications of suspended ones from
// every Sender (TestASuspendedProviderOfEveryTypeSendsNothing in internal/alerts).
//
// A send without a received answer is a failed send that may have arrived. Destinations that can drop duplicates are given
// Notification.DeliveryID, which is the same at every attempt. (Below Send, net/http repeats a request by itself only when the idle
// connection it was written to turns out to be dead.)
//
// The reason of a refusal is its status. A word of the answer follows it if the word, as the whole answer or as the code in it, is in
// a closed list of the type. That a port of HTTPS was sent HTTP is shown for every type. Nothing else of an answer is shown, not even its
// length.
//
// # Secrets
//
// Token, address, header values and proxy credentials are secrets everywhere, from any source. No error text and no formatting of a
// Config contains any part of them. Of a destination's answer they contain known words only.
//
// # Addresses
//
// Addresses are tenant input and are reached from the process's place in the network. So Network checks each IP address when it is
// dialled, independent of the name or notation that led to it. Behind a proxy the proxy's address is checked when it is dialled, and
// the destination's if the URL has an IP address in place of a name. The owner of a tenant's proxy decides which names it resolves.
//
// For the environment's proxy a name is also resolved here and its addresses are checked. A name without an address here passes: the
// proxy then resolves it on its own. If a name answers differently to the proxy, only the proxy can refuse it.
//
// A type that speaks HTTP gives the type's login to a Client. Where one request is a send, the Client is the Sender, by its Message. Other
// types embed it, whose Close and Limit are then those of the Sender. Types without HTTP connect by a Dialer, with the same checks, and by the
// environment's proxy for https. They call CheckOwned right before they write a message, as the Client does before a body.
//
// Every request carries "Via: 1.1 notifier", which tenants cannot change. By this header the process's own endpoints recognize a
// notification that was addressed to them and end the loop.
package provider

// Package provider sends notifications to the destinations that tenants configure. One destination type is one package
// beneath it (slack, msteams, generic); package registry lists them. What they share is here: the Config they are built
// from, the HTTP Client they send with, and how a failed send is classified.
//
// # Contract
//
// A Sender is built once, when a spec or its Secret changes, and is then used by any number of goroutines. Send makes one
// attempt and returns when its outcome is known, at the latest after Config.Timeout. It never retries, queues or limits:
// that is the deliverer's part. Everything it returns is an *event.Error:
//
//   - nil: the destination answered 2xx. The answer's body does not matter, unless the type says otherwise (Slack's API).
//   - event.Retry: no connection, no answer in time, a certificate that does not verify, or 408, 425, 429, 5xx, with the
//     destination's Retry-After. A bad certificate is retried, since certificates expire, are rotated and are repaired
//     without an edit of the Provider; the reason tells its owner meanwhile. Whatever goes wrong at a proxy is retried too.
//   - event.Permanent: any other 4xx; a redirect (none is followed); an address that may not be reached.
//
// No type knows whether its Provider is suspended, or whether its Alert is: the router and the deliverer keep such notifications from every
// Sender (TestASuspendedProviderOfEveryTypeSendsNothing in internal/alerts).
//
// A send whose answer was not received is a failed send that may have arrived. Destinations that can drop duplicates are given
// Notification.DeliveryID, which is the same at every attempt. (Below Send, net/http repeats a request by itself only when the
// idle connection it was written to turns out to be dead.)
//
// A refusal's reason is its status, with a word of the answer if the type knows that word, from a closed list, as all of the answer or
// the code in it. Nothing else of an answer is shown, not even its length.
//
// # Secrets
//
// Token, address, header values and proxy credentials are secrets throughout, wherever they came from. No error text, and no
// formatting of a Config, holds any part of them or, but for known words, of a destination's answer.
//
// # Addresses
//
// Addresses are tenant input and are reached from the process's place in the network, so Network decides on each IP address
// at the moment of dialling, whatever name or notation led to it. Behind a proxy the proxy's address is checked at dialling, and the
// destination's if the URL has one instead of a name. What names a tenant's own proxy resolves is its owner's to decide. For the
// environment's proxy a name is also resolved here, to be checked, and passes if it has no address here: the proxy then resolves it on
// its own, so a name that answers differently to the proxy is the proxy's to refuse.
//
// Types that do not speak HTTP connect by a Dialer, with the same checks, and by the environment's proxy for https. They ask CheckOwned
// right before they write a message, as the Client does before a body.
//
// Every request carries "Via: 1.1 notifier", which tenants cannot change: by it the process's own doors can recognize a
// notification that was addressed to them and end the loop.
package provider

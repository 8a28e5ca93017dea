// Package oidc verifies bearer tokens that OpenID Connect issuers have signed.
//
// Types whose senders have tokens of an OpenID Connect issuer share one cache of issuers' keys, Issuers. A fetch is shared by all that
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
package oidc

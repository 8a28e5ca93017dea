// Package oidc verifies bearer tokens that OpenID Connect issuers have signed.
//
// Types whose senders have tokens of an OpenID Connect issuer share one cache of issuers' keys, Issuers. All waiting requests share one
// fetch, and an issuer is asked at most once in ten seconds, for an unknown key as well as after a failure. A fetch may fail or take long
// because of the namespace that it is for, so then an issuer is asked once in ten seconds for each namespace that waits. A key that its issuer
// drops is refused after five minutes. If an issuer does not answer, its keys are used until an hour after their fetch. Of the answer, at most
// 256 KiB, only 32 keys are kept, with their algorithms and with IDs of at most 256 bytes. RSA keys have 2048 to 4096 bits.
//
// A token is tried with at most four keys, of those that it names and that are for its algorithm. For ES384 and ES512, which are slow to
// check, that is done in its namespace's turn. Its times are whole numbers of seconds, in their order, and its end is at most 400 days
// ahead. A claim whose name differs from a checked claim's only in case is refused, and so is a token whose header has a key.
//
// Each namespace has a share of its own: 32 issuers; two fetches at once; one fetch a second, sixteen in a burst; and eight in ten seconds
// from one host. Beyond it its tokens are answered 503. The least recently used issuer is evicted, and each issuer unused for an hour, but
// none whose keys the namespace had fetched within ten seconds. An issuer is remembered as long as one namespace has it, and Google's
// always.
//
// All expressions over one token's claims share the work of one evaluation, which bounds the memory of their values to a few MiB, and a
// quarter of a second. They take their namespace's turn, like filters; a token whose turn is not in time is answered 503.
package oidc

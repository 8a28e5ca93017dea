// Package mastodon posts notifications as an account of a Mastodon server.
//
// The address is the server's, with a path before /api/v1/statuses if it has one, or that of the method itself. The Secret's token is an
// access token with the scope write:statuses. A post has the visibility that is the account's default. The package makes its one call
// itself: the libraries bring the rest of the API, and retries of their own.
//
// # Text
//
// A post is plain text: no character of it is markup, and URLs become links. But "@name" and "@name@host" notify people, on any server. In
// all texts of an event a zero-width character breaks them, so that they notify nobody; in an Alert's summary and eventMetadata the
// mentions are the author's. A "#word" becomes a link to the posts that have it, and notifies nobody. Control characters are replaced,
// since Mastodon's database cannot store a NUL.
//
// # Limits
//
// A post has 500 characters, and each URL in it counts as 23, however short it is. A longer text is cut: the message first, so that the
// metadata stays, and then the whole. Servers that take longer posts get no longer ones. An account may post 300 times in three hours by
// default, which the server's administrator may change; an answer of 429 gives the time from which it takes posts again.
//
// # Duplicates
//
// The Idempotency-Key is the delivery's ID. A server keeps it for an hour and answers a repeated post of that time with the existing one.
package mastodon

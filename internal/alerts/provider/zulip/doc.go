// Package zulip sends notifications to a topic of a Zulip channel, by a bot with its API key.
//
// The address is the server's; its path is replaced by that of the API, as with Flux. spec.channel is "<channel>/<topic>", divided at
// the first slash. The package makes its one call itself: there is no library for Go that is kept.
//
// # Text
//
// Zulip's Markdown knows no escapes, so what means something beyond looks is broken by a character of no width in everything from an
// event: "@**all**" and "@*group*" would notify people, "[label](address)" would hide an address. URLs stay links. In an Alert's summary
// and eventMetadata the markup is the author's, mentions too.
//
// # Limits
//
// A topic has 60 characters and a message 10,000; what is longer is cut. Zulip Cloud takes 200 requests a minute from a bot, which is the
// limit where the Provider names none. A limit's answer says how long to wait.
//
// # Duplicates
//
// Zulip cannot drop a message that it has, so one whose answer was lost is seen twice.
package zulip

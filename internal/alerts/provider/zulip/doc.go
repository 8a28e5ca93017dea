// Package zulip sends notifications to a topic of a Zulip channel, by a bot with its API key.
//
// The address is the server's; its path is replaced by that of the API, as with Flux. spec.channel is "<channel>/<topic>", divided at
// the first slash. The package makes its one call itself: no library for Go is maintained.
//
// # Text
//
// Zulip's Markdown has no escapes. So in all texts of an event markup that does more than change the looks is broken by a zero-width
// character: "@**all**" and "@*group*" would notify people, "[label](address)" would hide an address. URLs stay links. In an Alert's
// summary and eventMetadata the markup, with its mentions, is the author's.
//
// # Limits
//
// A topic has 60 characters and a message 10,000; longer texts are cut. Zulip Cloud takes 200 requests a minute from a bot. That is
// the limit if the Provider names none. The answer to a request beyond the limit gives the time to wait.
//
// # Duplicates
//
// Zulip does not drop a repeated message, so a message whose answer was lost is shown twice.
package zulip

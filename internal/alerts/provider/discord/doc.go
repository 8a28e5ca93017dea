// Package discord sends notifications to Discord's webhooks, as an embed.
//
// Flux posts to the variant of a webhook that speaks Slack's format, whose path ends in "/slack". An address with or without that ending
// is taken, and the webhook itself is called: only there an embed has the time of the event, and only there a message can say that it
// mentions nobody. The address keeps its query, such as "?thread_id=". The package has its own few types: a library for bots brings a
// gateway client.
//
// # Text
//
// Discord's Markdown is escaped with backslashes in everything from an event; plain URLs stay links. In an Alert's summary and
// eventMetadata the markup is the author's. Nobody is ever notified, whatever the text: allowed_mentions is empty, and an embed notifies
// nobody anyway. A name that Discord refuses for a webhook's author is left out, and the webhook's own is shown.
//
// # Limits
//
// An embed has 6,000 characters at most, its description 4,096 and its 25 fields 256 and 1,024; what is longer is cut. Discord's webhooks
// take 30 messages a minute and five at once, which is the limit where the Provider names none. An answer of 429 says in its body and in
// X-RateLimit-Reset-After how long to wait.
//
// # Duplicates
//
// Webhooks have no field by which Discord would drop a message that it has, so one whose answer was lost is seen twice, with the same
// time.
package discord

// Package discord sends notifications to Discord's webhooks, as an embed.
//
// Flux posts to the variant of a webhook that takes Slack's format, whose path ends in "/slack". An address with or without that
// ending is accepted, and the webhook itself is called. Only there an embed has the time of the event, and a message can disable its
// mentions. The address keeps its query, such as "?thread_id=". With "wait=true", which is added, Discord answers when it has saved the
// message, and says why it did not. The package has its own few types: a library for bots brings a gateway client.
//
// # Text
//
// Discord's Markdown is escaped with backslashes in all texts of an event; plain URLs stay links. In an Alert's summary and
// eventMetadata the markup is the author's. No text notifies anybody: allowed_mentions is empty, and an embed notifies nobody. A name
// that Discord refuses for a webhook's author is left out, and the webhook's own is shown.
//
// # Limits
//
// An embed has 6,000 characters at most, its description 4,096 and its 25 fields 256 and 1,024; longer texts are cut. Discord's
// webhooks take 30 messages a minute and five at once. That is the limit if the Provider names none. An answer of 429 gives the wait
// in its body and in X-RateLimit-Reset-After.
//
// # Duplicates
//
// Discord's webhooks have no field by which they drop a repeated message. So a message whose answer was lost is shown twice, with the
// same time.
package discord

// Package rocket sends notifications to the incoming webhooks of Rocket.Chat, as one attachment in Slack's form. Its colours are in
// hexadecimal, the only form that Rocket.Chat knows. The types are the package's own: those of Slack's library send fields that only
// Slack has.
//
// # Text
//
// Rocket.Chat shows Markdown, in which "@all" and "@here" notify a channel, and "[label](address)" and "<address|label>" hide an
// address. In all texts of an event these are broken by a zero-width character; *bold* stays bold and URLs stay links. In an Alert's
// summary and eventMetadata the markup, with its mentions, is the author's.
//
// # Limits
//
// A message has 5,000 characters by default, which an administrator may change; a longer text is cut. A server's rate is its
// administrator's.
//
// # Duplicates
//
// Webhooks do not drop a repeated message. So a message whose answer was lost is shown twice, with the same time of the event.
package rocket

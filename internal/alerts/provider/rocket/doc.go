// Package rocket sends notifications to the incoming webhooks of Rocket.Chat, as one attachment in Slack's form with colours in
// hexadecimal, which are the only ones that Rocket.Chat knows. The types are the package's own: those of Slack's library send fields of
// Slack's alone.
//
// # Text
//
// Rocket.Chat shows Markdown, in which "@all" and "@here" notify a channel, and "[label](address)" and "<address|label>" hide an
// address. In everything from an event these are broken by a character of no width; *bold* stays bold and URLs stay links. In an Alert's
// summary and eventMetadata the markup is the author's, mentions too.
//
// # Limits
//
// A message has 5,000 characters unless an administrator says otherwise; a longer text is cut. A server's rate is its administrator's.
//
// # Duplicates
//
// Webhooks cannot drop a message that they have, so one whose answer was lost is seen twice, with the same time of the event.
package rocket

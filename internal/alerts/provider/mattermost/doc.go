// Package mattermost sends notifications to Mattermost: to an incoming webhook, whose path has "/hooks/", or by the API with the token
// of a bot or person.
//
// By the API the address is the server's, with a path before /api/v4 if it has one, and spec.channel is the channel's ID. By a webhook
// spec.channel and spec.username are optional and replace the webhook's own. The message is one of Mattermost's attachments. The
// package makes its one call itself: Mattermost's model package brings those of the whole server.
//
// # Text
//
// Mattermost shows Markdown, and a webhook also reads Slack's "<!channel>" and "<address|label>". In all texts of an event &, < and >
// are written as HTML's character references and Markdown's characters get backslashes. "@name" is broken, so that it notifies nobody;
// plain URLs stay links. In an Alert's summary and eventMetadata the markup, with its mentions, is the author's. Control characters
// are replaced, since Mattermost's database cannot store a NUL.
//
// # Limits
//
// A text is cut at 7,500 characters, of which Mattermost shows the first lines. A message is far shorter than the 760,000 characters
// that its attachments may have. A server's rate is its administrator's; it answers 429 with Retry-After.
//
// # Duplicates
//
// By the API each post has the delivery's ID as its pending_post_id. A server answers a post that repeats one of the last half minute
// with the existing post. A webhook does not drop a repeated message, so a message whose answer was lost is shown twice.
package mattermost

// Package mattermost sends notifications to Mattermost: to an incoming webhook, whose path has "/hooks/", or by the API with the token
// of a bot or person.
//
// By the API the address is the server's, with a path before /api/v4 if it has one, and spec.channel is the channel's ID. By a webhook
// spec.channel and spec.username are optional and overrule the webhook's own. The message is one of Mattermost's attachments. The
// package makes its one call itself: Mattermost's model package brings its whole server's.
//
// # Text
//
// Mattermost shows Markdown, and a webhook also reads Slack's "<!channel>" and "<address|label>". In everything from an event &, < and >
// are written as HTML's character references, Markdown's characters get backslashes and "@name" is broken up, so that it notifies
// nobody; plain URLs stay links. In an Alert's summary and eventMetadata the markup is the author's, mentions too. Control characters
// are replaced, since Mattermost's database cannot store a NUL.
//
// # Limits
//
// A text is cut at 7,500 characters, of which Mattermost shows the first lines, and a message keeps far below the 760,000 of its
// attachments. A server's rate is its administrator's; it answers 429 with Retry-After.
//
// # Duplicates
//
// By the API each post has the delivery's ID as its pending_post_id, by which a server answers with the post that it has made of it in
// the last half minute. A webhook cannot drop one, so a message whose answer was lost is seen twice.
package mattermost

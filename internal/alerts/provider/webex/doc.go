// Package webex sends notifications to Webex spaces, with the messages API and a bot's token, or by an incoming webhook.
//
// The address is that of the API, https://webexapis.com/v1/messages, which needs a token and, as spec.channel, a room's ID. An
// incoming webhook, /v1/webhooks/incoming/…, takes the same Markdown without either. The package makes its one call itself: the
// libraries for Go are dormant.
//
// # Text
//
// Webex shows Markdown with some HTML, by which <@all> and <@personEmail:…> mention people. In all texts of an event &, < and > are
// escaped as HTML and Markdown's characters with backslashes; plain URLs stay links and lines stay lines. In an Alert's summary and
// eventMetadata the markup, with its mentions, is the author's.
//
// # Limits
//
// A message has 7,439 bytes at most; a longer text is cut. Webex publishes no rate; it answers 429 with Retry-After, and
// 423 where what is requested is unavailable for a time.
//
// # Duplicates
//
// Webex does not drop a repeated message, so a message whose answer was lost is shown twice.
package webex

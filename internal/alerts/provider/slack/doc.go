// Package slack sends notifications to Slack, and to what speaks Slack's incoming webhooks, such as Mattermost.
//
// An address of Slack's chat.postMessage method is called as the API that it is: it needs a token and a channel, and the answer
// must say ok. Any other address is an incoming webhook, for which a 2xx is enough; a token is sent along as a bearer token.
//
// # Text
//
// Everything from an event is escaped by Slack's rules (&, <, >), but what the Alert's author wrote into the Alert. In Slack's markup "<!channel>", "<@U123>" and
// "<https://a|b>" notify people and hide addresses behind labels, and an event's text is written by tools, commits and
// unauthenticated senders; so it is shown and never obeyed. Plain URLs still become links, and *bold* stays bold. In an Alert's summary
// and eventMetadata the markup is the author's, and means what it says.
//
// Slack cuts an attachment's text at 8,000 characters without a word; the text is cut a little before that and says so.
package slack

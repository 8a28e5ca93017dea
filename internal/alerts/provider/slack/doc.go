// Package slack sends notifications to Slack, and to other servers of Slack's incoming webhooks, such as Mattermost.
//
// An address of Slack's chat.postMessage method, on slack.com, slack-gov.com or the domain of a workspace, is called as an API: it needs
// a token and a channel, and the answer must say ok. Any other address is an incoming webhook, for which a 2xx is enough; a token is sent
// as a bearer token. If its path ends with chat.postMessage, as that of a gateway to the API, an answer with "ok": false and an error is a refusal.
//
// # Text
//
// All texts of an event are escaped by Slack's rules (&, <, >), except those that the Alert's author wrote into the Alert. In Slack's
// markup "<!channel>", "<@U123>" and "<https://a|b>" notify people and hide addresses behind labels. An event's text is written by
// tools, commits and unauthenticated senders, so its markup is shown and has no effect. Plain URLs still become links, and *bold*
// stays bold. In an Alert's summary and eventMetadata the markup is the author's and takes effect. At an address that is not Slack's,
// "@name" and "[label](address)" are broken as well, which other servers obey.
//
// Slack cuts an attachment's text at 8,000 characters silently. The text is cut a little before that and ends in a mark.
//
// The package makes its one call itself: Slack's library takes an answer of the API that does not say ok for a success.
package slack

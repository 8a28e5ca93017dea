// Package lark sends notifications to the custom bots of Lark and Feishu, as an interactive card.
//
// The Secret's key token, which Flux does not read for this type, is the secret of a bot that verifies signatures. The package makes
// its one call itself: Lark's library is for apps.
//
// # Answers
//
// Lark refuses a message with HTTP 200 and a code other than 0. So the answer is read, and only code 0 is a success. An unknown code
// has an unknown meaning, so it is retried.
//
// # Text
//
// Lark's Markdown is escaped with HTML's character references, as its documentation says, in all texts of an event: <at id=all></at>
// would notify a group. Plain URLs stay links. In an Alert's summary and eventMetadata the markup, with its mentions, is the author's.
//
// # Limits
//
// A request has 20 KB at most; a longer text is cut. A bot takes 100 messages a minute and five a second. That is the limit if the
// Provider names none.
//
// # Duplicates
//
// A custom bot does not drop a repeated message, so a message whose answer was lost is shown twice.
package lark

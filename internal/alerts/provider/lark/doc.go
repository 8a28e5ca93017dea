// Package lark sends notifications to the custom bots of Lark and Feishu, as an interactive card.
//
// The key token of the Secret, which Flux does not read for this type, is the secret of a bot that verifies signatures. The package
// makes its one call itself: Lark's library is for apps.
//
// # Answers
//
// Lark answers HTTP 200 to what it refuses, with a code that is not 0. So the answer is read, and a send succeeds only by code 0. What an
// unknown code means is unknown, so it is retried.
//
// # Text
//
// Lark's Markdown is escaped with HTML's character references, as its documentation says, in everything from an event: <at id=all></at>
// would notify a group. Plain URLs stay links. In an Alert's summary and eventMetadata the markup is the author's, mentions too.
//
// # Limits
//
// A request has 20 KB at most; a longer text is cut. A bot takes 100 messages a minute and five a second, which is the limit where the
// Provider names none.
//
// # Duplicates
//
// A custom bot cannot drop a message that it has, so one whose answer was lost is seen twice.
package lark

// Package telegram sends notifications by a Telegram bot, with the sendMessage method of the Bot API.
//
// The host is Telegram's own, whatever spec.address says, as with Flux. spec.channel is a chat's number or @name, with ":" and the
// number of a topic behind it if the chat has topics. The package makes its one call itself: a library for bots brings an update loop.
//
// # Text
//
// Telegram refuses a whole message for one character of its MarkdownV2 that is not escaped. So the text is sent as it is, without
// markup, and what is bold is said beside it, as entities: nothing needs escaping, and all of the limit is for text. Flux escapes the
// summary and the metadata of an Alert for this type too, so no author's markup ever meant anything here. In the text of an event
// "@name" is broken up, so that it notifies nobody; URLs stay links, without a preview.
//
// # Limits
//
// A message has 4,096 UTF-16 code units at most; a longer text is cut. A bot may send a group or channel 20 messages a minute and a
// person one a second, which are the limits where the Provider names none. An answer of 429 says how long to wait.
//
// # Duplicates
//
// Telegram cannot drop a message that it has, so one whose answer was lost is seen twice.
package telegram

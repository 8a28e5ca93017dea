// Package telegram sends notifications by a Telegram bot, with the sendMessage method of the Bot API.
//
// The host is always Telegram's own and spec.address is ignored, as with Flux. spec.channel is a chat's number or @name. If the chat
// has topics, ":" and the number of a topic may follow. The package makes its one call itself: a library for bots brings an update
// loop.
//
// # Text
//
// Telegram refuses a whole message for one character of its MarkdownV2 that is not escaped. So the text is sent without markup, and
// its bold parts are listed beside it as entities: nothing needs escaping, and the whole limit is for text. Flux escapes the summary
// and the metadata of an Alert for this type too, so markup of an author never had a meaning here. In the text of an event "@name" is
// broken, so that it notifies nobody; URLs stay links, without a preview.
//
// # Limits
//
// A message has 4,096 UTF-16 code units at most; a longer text is cut. A bot may send a group or channel 20 messages a minute and a
// person one a second. Those are the limits if the Provider names none. An answer of 429 gives the time to wait.
//
// # Duplicates
//
// Telegram does not drop a repeated message, so a message whose answer was lost is shown twice.
package telegram

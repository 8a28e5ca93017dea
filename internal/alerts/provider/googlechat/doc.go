// Package googlechat sends notifications to the incoming webhooks of Google Chat, as a card.
//
// The card is one of cardsV2; Flux sends the deprecated cards, which look the same to a reader. spec.channel, which Flux does not read
// for this type, is the key of the thread of all messages. The package has its own few types: Google's client library brings its
// authentication.
//
// # Text
//
// The texts of a card are HTML of a few tags, so &, < and > of an event are escaped. In its titles, which are plain text, < and >
// become ‹ and ›, in case a client reads them as HTML. In an Alert's summary and eventMetadata the markup is the author's. A card
// mentions nobody.
//
// # Limits
//
// A message has 32,000 bytes at most; a longer text is cut. A space takes one message a second. That is the limit if the Provider
// names none.
//
// # Duplicates
//
// Each request has a requestId made of the delivery's ID. Chat answers a repeated one with the existing message instead of posting it
// again.
package googlechat

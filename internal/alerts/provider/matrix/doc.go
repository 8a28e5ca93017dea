// Package matrix sends notifications to a room of a Matrix homeserver, as m.text messages of the account of an access token.
//
// The client-server API of version 3 is called at the address, which may have a path before /_matrix. spec.channel is the room's ID,
// such as "!abc:example.org"; an alias, "#name:example.org", takes no messages. The package makes its one call itself: the libraries
// bring a client with state, keys and sync. Messages to encrypted rooms are sent without encryption, as with Flux.
//
// # Text
//
// A message has a plain body and the same text as HTML, in which all texts are escaped. Flux sends the plain body alone, so markup of
// an author never had a meaning here. The summary and the metadata of an Alert are shown as they are written too. The lists of
// mentions are empty (m.mentions), so no name or "@room" in a text notifies anybody.
//
// # Limits
//
// An event has 65,536 bytes at most; a longer text is cut. Homeservers have limits of their own, and answer with the time to wait
// (M_LIMIT_EXCEEDED).
//
// # Duplicates
//
// The transaction's ID is that of the delivery, so a homeserver answers a repeated message with the existing event.
package matrix

// Package matrix sends notifications to a room of a Matrix homeserver, as m.text messages of an account whose access token it has.
//
// The client-server API of version 3 is called at the address, which may have a path before /_matrix. spec.channel is the room's ID,
// such as "!abc:example.org"; an alias, "#name:example.org", takes no messages. The package makes its one call itself: the libraries
// bring a client with state, keys and sync. Messages of encrypted rooms are sent without encryption, as with Flux.
//
// # Text
//
// A message has a plain body and the same as HTML, in which everything is escaped. Flux sends the plain body alone, so no author's markup
// ever meant anything here, and the summary and metadata of an Alert are shown as they are written as well. Lists of mentions are empty
// (m.mentions), so that no name or "@room" in a text notifies anybody.
//
// # Limits
//
// An event has 65,536 bytes at most; a longer text is cut. Homeservers have limits of their own, and say how long to wait
// (M_LIMIT_EXCEEDED).
//
// # Duplicates
//
// The transaction's ID is that of the delivery, so a homeserver answers a repeated message with the event that it has.
package matrix

// Package zoom sends notifications to Zoom Team Chat, by the connections of its Incoming Webhook app.
//
// The address is the connection's endpoint, called with "format=full" unless it names a format; the connection's verification token
// stands in the Authorization header by itself. The package makes its one call itself: there is no library for the app.
//
// # Text
//
// A message of this format is plain text: Zoom obeys Markdown only where a message asks for it, which none does here. So nothing needs
// escaping, no text mentions anybody, and what the Alert's author wrote is shown as it is written, as with Flux.
//
// # Limits
//
// Zoom publishes neither a length nor a rate for the app. Texts are cut at 4,096 characters, which is the length of a chat message, and
// all of a message at 8,000.
//
// # Duplicates
//
// The app cannot drop a message that it has, so one whose answer was lost is seen twice.
package zoom

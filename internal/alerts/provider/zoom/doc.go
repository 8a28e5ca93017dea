// Package zoom sends notifications to Zoom Team Chat, by the connections of its Incoming Webhook app.
//
// The address is the connection's endpoint, called with "format=full" unless it names a format. The connection's verification token is
// the whole value of the Authorization header. The package makes its one call itself: there is no library for the app.
//
// # Text
//
// A message of this format is plain text: Zoom obeys Markdown only in messages that ask for it, and none here does. So nothing needs
// escaping, no text mentions anybody, and texts of the Alert's author are shown as they are written, as with Flux.
//
// # Limits
//
// Zoom publishes neither a length nor a rate for the app. Texts are cut at 4,096 characters, the length of a chat message, and a whole
// message at 8,000.
//
// # Duplicates
//
// The app does not drop a repeated message, so a message whose answer was lost is shown twice.
package zoom

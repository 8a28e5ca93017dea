// Package nats publishes notifications to a subject of NATS. The body is the Event in JSON, as Flux's event API has it, with the
// Alert's metadata merged. The address is one server or several of a cluster, separated by commas, and the channel is the subject.
//
// A message is published to the present subscribers. A send succeeds when the server has answered the ping after the message, so a
// refusal for lack of permission is noticed. With Config.JetStream it succeeds when a stream has acknowledged the message.
//
// Every message has the header Nats-Msg-Id with the delivery's ID. A stream drops a duplicate by it within its window, in both modes.
// Other subscribers get the duplicate and can recognize it by the header. Nothing resolves: a message is an event.
//
// # Login
//
// The Secret's key creds is the content of a credentials file, and nkey is a seed. username with password, or token, are sent
// unchanged. The first of these that is present is used, then the credentials in the address. TLS is required by the scheme tls and if
// the Provider names certificates. It is also used if the server requires it.
//
// # Connection
//
// One connection serves all sends, until it was unused for a minute and a half or the Sender is closed. The library never reconnects
// by itself. The next send connects, within its timeout, to one server after another. Servers that a cluster announces are not used:
// only the address names servers. The bytes that a server may send are bounded, and none of them is shown.
//
// The library allocates a message's announced length, in a goroutine of its own. So the server's bytes are checked before the library
// reads them, also within TLS. A server that announces more than an acknowledgement needs is disconnected.
//
// The text of a message larger than the server's limit is cut.
//
// # Library
//
// nats.go is the protocol's own library and already serves the bus. It dials through provider.Dialer.
package nats

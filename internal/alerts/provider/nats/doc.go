// Package nats publishes notifications to a subject of NATS: the body is the Event in JSON, as Flux's event API has it, with the Alert's
// metadata merged. The address is one server or several of a cluster, comma separated, and the channel is the subject.
//
// A message is published to whoever subscribes at that moment, and a send has succeeded when the server has answered the ping behind it,
// so that a refusal for want of permission is seen. With Config.JetStream it has succeeded when a stream has acknowledged the message.
//
// Every message has the header Nats-Msg-Id with the delivery's ID: a stream drops a duplicate by it within its window, whichever of the
// two ways published it. Other subscribers see the duplicate and can tell it by the header. Nothing resolves: a message is an event.
//
// # Login
//
// The Secret's key creds is the content of a credentials file, nkey is a seed; username with password, or token, are sent as they are.
// The first of these that is there is used, then what stands in the address. TLS is required by the scheme tls and where the Provider
// names certificates, and used where the server asks for it.
//
// # Connection
//
// One connection serves all sends, until it was unused for a minute and a half or the Sender is closed. It is never made anew behind a
// send's back: the next send does that, within its timeout, to one server after another. The servers that a cluster tells of are not
// used; the address names those that are meant. What a server may say is bounded, and none of it is shown.
//
// A message larger than the server takes has its text cut.
//
// # Library
//
// nats.go is the protocol's own library and already serves the bus. It dials through provider.Dialer.
package nats

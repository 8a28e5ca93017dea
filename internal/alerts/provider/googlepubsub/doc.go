// Package googlepubsub publishes notifications to a topic of Google Cloud Pub/Sub: the data is the Event in JSON, as Flux's event API
// has it, with the Alert's metadata merged. The address is the project's ID and the channel the topic's.
//
// # Login
//
// The token is the JSON key of a service account. With it a JWT is signed that Google's APIs take as it is (a self-signed JWT,
// AIP-4111), so no other server is asked. Without a token the workload identity of Config.ServiceAccount logs in (package cloudauth).
// Keys of other types, which name files and servers to read further credentials from, are refused.
//
// # The message
//
// The Secret's headers are its attributes, as in Flux, and one more is the delivery's ID, under Idempotency-Key, by which subscribers
// can drop a duplicate: Pub/Sub itself drops none. The ordering key is the object, so that a subscription with ordering gets the events
// of one object in their order; others do not look at it. Data and attributes are kept within what Pub/Sub takes, the message being cut.
// Nothing resolves.
//
// # Library
//
// Google's library brings gRPC and some 270 packages for one POST, and finds credentials of the machine's by itself. This is the REST
// method projects.topics.publish.
package googlepubsub

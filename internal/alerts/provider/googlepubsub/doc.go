// Package googlepubsub publishes notifications to a topic of Google Cloud Pub/Sub. The data is the Event in JSON, as Flux's event API
// has it, with the Alert's metadata merged. The address is the project's ID and the channel the topic's.
//
// # Login
//
// The token is the JSON key of a service account. It signs a JWT that Google's APIs accept directly (a self-signed JWT, AIP-4111), so
// no other server is involved. Without a token the workload identity of Config.ServiceAccount logs in (package cloudauth). Keys of
// other types, which name files and servers to read further credentials from, are refused.
//
// # The message
//
// The Secret's headers are its attributes, as in Flux. One more attribute, Idempotency-Key, is the delivery's ID, by which subscribers
// can drop a duplicate: Pub/Sub itself drops none. The ordering key is the object, so a subscription with ordering gets the events of
// one object in their order; other subscriptions ignore it. Data and attributes are kept within Pub/Sub's limits, and the message is
// cut for that. The errors ABORTED and CANCELLED are tried again, as Google's own libraries do. Nothing resolves.
//
// # Library
//
// Google's library brings gRPC and some 270 packages for one POST, and finds credentials of the machine by itself. This package uses
// the REST method projects.topics.publish.
package googlepubsub

// Package otel sends events as spans to a receiver of OpenTelemetry, by OTLP over HTTP with protobuf. The address is the receiver's;
// without a path it is that of traces, /v1/traces.
//
// The Secret's headers are sent along. Without an Authorization among them username and token (or password) log in, or a token alone as a
// bearer token.
//
// # What is sent
//
// One span without a duration for each event: its name is "Kind: namespace/name", its attributes are the object's and the metadata, its
// status is Error with the message for a failure and Ok else. The resource is the Alert: service.name "namespace/name", service.namespace
// and service.instance.id. What happens at one revision is one trace: its ID is the first 16 bytes of SHA-256 of "<Alert's
// UID>:<revision>", as in Flux. The span's ID is made from the delivery's, so that a failure and a recovery at one revision are two spans,
// and a span that is sent twice is one for a store that tells spans by their ID. HelmRepository objects are not sent, as in Flux.
//
// An answer that counts the span as rejected is a refusal for good, as the protocol asks for.
//
// Nothing opens and nothing is closed: spans are a record.
//
// # Libraries
//
// The exporter of OpenTelemetry (160 modules, gRPC) batches in the background and reports errors to a handler of the process. The generated
// types of the protocol are its schema, and are all that is needed: Flux sends protobuf, and not every receiver takes JSON.
package otel

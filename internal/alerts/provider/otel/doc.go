// Package otel sends events as spans to a receiver of OpenTelemetry, by OTLP over HTTP with protobuf. The address is the receiver's;
// without a path it is that of traces, /v1/traces.
//
// The Secret's headers are sent too. If there is no Authorization among them, username and token (or password) log in, or a token
// alone as a bearer token.
//
// # What is sent
//
// Each event is one span without a duration. Its name is "Kind: namespace/name", and its attributes are the object's and the metadata.
// Its status is Error with the message for a failure, and Ok for any other event. The resource is the Alert: service.name
// "namespace/name", service.namespace and service.instance.id. HelmRepository objects are not sent, as in Flux.
//
// The events at one revision are one trace: its ID is the first 16 bytes of SHA-256 of "<Alert's UID>:<revision>", as in Flux. The
// span's ID is made from the delivery's. So a failure and a recovery at one revision are two spans, and a store that identifies spans
// by their ID keeps a repeated span once.
//
// An answer that counts the span as rejected is a permanent refusal, as the protocol requires.
//
// Nothing is opened or closed: spans are a record.
//
// # Libraries
//
// The exporter of OpenTelemetry (160 modules, gRPC) batches in the background and reports errors to a handler of the process. The
// generated types of the protocol are its schema, and nothing more is needed: Flux sends protobuf, and some receivers take no JSON.
package otel

// Package verify has the types of Receivers. A type defines how a webhook proves that its sender knows
// the Receiver's credentials, which event the webhook reports, and which JSON filters read.
//
// New compiles a Verifier. Begin checks the headers, before any of the body is read. The raw bytes are then written to
// the Check that Begin returned, and Finish compares in constant time. Nothing is parsed before that, and a type that
// parses the body does so in the turn of the Receiver's namespace. A request that is not authentic ends in an
// answer.Refusal, which contains nothing of the request and nothing secret. An issuer whose keys are not available, and
// a turn that was not reached in time, are errors of their own, since the sender is to try again.
package verify

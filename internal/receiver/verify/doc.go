// Package verify has the types of Receivers, one file a type: how a webhook proves that its sender knows the Receiver's credentials,
// what event it tells of, and which JSON filters read.
//
// New compiles a Verifier. Begin checks the headers, before any of the body is read; the raw bytes are then written to the Check that it
// returned, and Finish compares in constant time. Nothing is parsed before that. A request that is not authentic ends in an
// answer.Refusal, which holds nothing of the request and nothing secret; an issuer whose keys are not known, and a turn that did not come,
// are errors of their own, since the sender is to try again.
package verify

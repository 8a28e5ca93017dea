// Package event is the vocabulary that the stages of notifier share: what happened (Event, Record), what is asked for
// (Trigger), what is to be sent (Delivery), how their identities are derived, and what a failure means (Error).
//
// The stages are joined by a bus with at-least-once delivery, so identity is the contract: the same fact always has the
// same ID, whoever computes it and however often. Stages drop what they have seen by ID and never by content or time.
//
// The package imports no other package of this module and no Kubernetes client: it is what lets the HTTP edge, the alert
// plane, the bus and the Kubernetes side know the same things without knowing each other.
package event

// Package event is the vocabulary that the stages of notifier share. It has the events (Event, Record), the requests to reconcile
// (Trigger), the notifications to send (Delivery), the derivation of their identities, and the classes of failures (Error).
//
// A bus with at-least-once delivery joins the stages, so identity is the contract. The same fact always has the same ID: on every
// replica, and however often it is computed. Stages drop duplicates by ID and never by content or time.
//
// The package imports no other package of this module and no Kubernetes client. Through it the HTTP endpoints, the alert plane, the
// bus and the Kubernetes side share these types and do not import each other.
package event

// Package api shows the owners of a namespace their events, deliveries and webhooks, and takes their wishes to send again: over HTTP, in
// JSON, to whoever Kubernetes RBAC allows it.
//
// Service is the one way to all of it: each method asks the Authority whether the user may do in that namespace what the method does, and
// only then the Store, the Worker, the Explainer or the Objects. The handlers of this package and the page call nothing else.
//
// The contract:
//
//   - There is no list of users and no session. A user is a bearer token, reviewed by the Kubernetes API; a right is an access review.
//     Both are believed for some seconds (package access), so that what was revoked ends within ten.
//   - Without an answer of the Kubernetes API nothing is shown: 503.
//   - A user without a right is answered with the same bytes whether the namespace exists or not, and nothing was read then.
//   - Reading is bounded: for each user in rate and in requests at a time, for all together in requests at a time. What is beyond is 429.
//   - No token is in an error, a log or a metric.
package api

// Package api serves the owners of a namespace: it shows their events, deliveries and webhooks, and accepts requests for replays
// and test messages. It uses HTTP and JSON, and admits the users that Kubernetes RBAC allows.
//
// Service is the only way to all of it. Each method first asks the Authority whether the user may do this in that namespace, and
// then the Store, the Worker, the Explainer or the Objects. The handlers of this package and the page call nothing else.
//
// The contract:
//
//   - There is no list of users and no session. A user is a bearer token, reviewed by the Kubernetes API; a right is an access
//     review. Both are kept for some seconds (package access), so a revoked token or right ends within ten.
//   - Without an answer of the Kubernetes API nothing is shown: 503.
//   - A user without a right gets the same bytes whether the namespace exists or not, and nothing is read for the answer.
//   - Nothing is shown from before the namespace was made: it is of another one of that name.
//   - Reading is bounded: for each user in rate and in concurrent requests, for all together in concurrent requests. Requests
//     beyond that get 429.
//   - No token is in an error, a log or a metric.
package api

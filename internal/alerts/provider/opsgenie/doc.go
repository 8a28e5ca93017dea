// Package opsgenie creates alerts of Opsgenie for objects that fail and closes them when the objects recover. The address is that of
// the Alert API, https://api.opsgenie.com/v2/alerts, and the token the key of an API integration.
//
//   - A failure creates an alert whose alias is a digest of the Provider's UID and the object's kind, namespace and name. While an
//     alert of an alias is open, Opsgenie adds further ones to its count and notifies nobody. So a failure that is sent twice notifies
//     once.
//   - A recovery closes the alert of the alias. Opsgenie answers 202 whether one is open or not; a 404 is a success as well. A
//     Kustomization says that it is well at every interval: that is sent only after a failure, and once after a start.
//
// # Text and limits
//
// Opsgenie takes a message of 130 characters, a description of 15,000 and details of 8,000 together. It shows them as plain text, or
// as HTML with some tags. So &, < and > are escaped in the description, but not in the data (message, details). Texts are cut before
// they are escaped.
//
// A refusal with 429 gives the time until the next period in X-RateLimit-Period-In-Sec. The rate itself depends on the account.
//
// Opsgenie's SDK ends with the product in 2027, and only two calls would use it.
package opsgenie

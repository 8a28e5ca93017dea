// Package opsgenie creates alerts of Opsgenie for objects that fail and closes them when the objects recover. The address is that of the
// Alert API, https://api.opsgenie.com/v2/alerts, and the token the key of an API integration.
//
//   - A failure creates an alert whose alias is a digest of the Provider's UID and the object's kind, namespace and name. While an alert of
//     an alias is open, Opsgenie counts further ones on it and notifies nobody, so a failure that is sent twice notifies once.
//   - A recovery closes the alert of the alias. Opsgenie answers 202 whether one is open or not; a 404 is a success as well.
//
// # Text and limits
//
// Opsgenie shows a message of 130 characters, a description of 15,000 and details of 8,000 together as plain text, or as HTML in which some
// tags count; so &, < and > are escaped in the description, but not in what is data (message, details). Texts are cut before they are
// escaped.
//
// A refusal with 429 says in X-RateLimit-Period-In-Sec when the next period begins. The rate itself depends on the account.
//
// Opsgenie's SDK ends with the product in 2027; it would serve two calls.
package opsgenie

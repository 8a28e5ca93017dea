// Package sentry sends failures to Sentry as error events and all other events as transactions, but for those that only close.
// The address is the DSN of a project, and spec.channel the environment.
//
// Each is one envelope with one item. The event's ID is the delivery's, by which Sentry drops a repeated error. The fingerprint of an
// error is the object and the reason. So all failures of an object for one reason are one issue, even with different messages.
//
// # Resolving
//
// A DSN only submits. The token of an internal integration, which is optional, gives access to the web API. Before a recovery is
// submitted, one request resolves the unresolved issues of the project whose events have the object's tag ("Bulk Mutate an
// Organization's Issues"). Every event of a Sender with a token has that tag. The request changes nothing if no issue is open, so it
// may be repeated. A recovery that only updates the status of a commit, as all of kustomize-controller do, resolves and is no
// transaction. It comes at every interval, and the request is made only after a failure, and after a start.
//
// Sentry's search finds an event some seconds after Sentry accepted it. So a recovery is retried if it finds no issue within a minute
// after its Sender submitted a failure of the object. What an earlier Sender of the Provider submitted, before a start or a change of the
// Provider, is not known. So a recovery that finds no issue in the first minute of its Sender does not count as the one that resolved, and
// the next one is sent too. An object that recovers by one event alone keeps its issue then until its next recovery.
//
// At Sentry's own service the DSN's host names the organization and the region, which determines the API's host. Elsewhere both are on
// one host, and the organization is that of the project, which is read once. The token is sent to that host, and the DSN's key to the
// DSN's.
//
// Without a token an issue stays until somebody resolves it, or until the project's auto-resolve does. A check-in of a cron monitor
// would open and resolve an issue by the DSN alone. But each object would then be a monitor, which is billed, needs a schedule that
// Flux objects do not have, and reports a missed check-in when nothing is wrong. In any case the next failure makes an issue a
// regression.
//
// # Text and limits
//
// Sentry shows texts unchanged. A message has 8,192 characters, and a tag's key and value 200. A key may have only letters, digits and
// ._:- in it. Sentry would drop the rest, so texts are cut and such characters become "_". Each envelope is below 200 KB, however it
// is escaped.
//
// Sentry's SDK queues an event and does not report whether it arrived; one POST does.
package sentry

// Package sentry sends failures to Sentry as error events and everything else as transactions. The address is the DSN of a project, and
// spec.channel the environment.
//
// Each is one envelope with one item. The event's ID is the delivery's, by which Sentry drops an error that it has already. The fingerprint
// of an error is the object and the reason, so that all failures of an object for one reason are one issue, whatever their messages say.
//
// # What does not resolve
//
// A DSN only submits. An issue is resolved by Sentry's web API, which asks for a token of the organization that no Provider has. A check-in
// of a cron monitor would open and resolve an issue by the DSN alone; but each object would then be a monitor, which is billed, needs a
// schedule that Flux objects do not have, and reports a missed check-in when nothing is wrong. So an issue stays until somebody resolves
// it, or until the project's auto-resolve does, and the next failure makes it a regression. Recoveries show as transactions.
//
// # Text and limits
//
// Sentry shows texts as they are. A message has 8,192 characters, a tag's key and value 200, of which the key only letters, digits
// and ._:- may be part; what Sentry would drop is cut or made "_". An envelope of ours is below 200 KB, however it is escaped.
//
// Sentry's SDK queues an event and does not tell whether it arrived; one POST does.
package sentry

// Package pagerduty opens and resolves alerts of PagerDuty by its Events API v2, and sends it change events.
//
// The address gives the scheme and the host. The integration's key is spec.channel or, if that is empty, the Secret's token.
//
//   - A failure triggers an alert whose dedup_key is the object's UID. While that alert is open PagerDuty adds a further trigger to it
//     and pages nobody, so a failure that is sent twice pages once.
//   - A recovery resolves the alert of the same dedup_key, which does nothing if none is open. It is then also sent as a change event.
//     An event that is neither failure nor recovery is a change event alone.
//   - A recovery that only updates the status of a commit, as all of kustomize-controller do, is no change event. It comes at every
//     interval, and is sent only after a failure, and once after a start.
//
// The resolution is sent first, and the change only after it arrived. If the change is refused the error names the change. A repeated
// attempt repeats the resolution, which is harmless, and the change that did not arrive. The only duplicate is a change event whose
// answer was lost, and it pages nobody.
//
// # Text and limits
//
// PagerDuty shows all fields as plain text. A summary may have 1,024 characters and a request 512 KB: texts are cut so that every
// event stays below that, however it is escaped. PagerDuty takes 120 events a minute for a key and answers 429 beyond. Its own hosts
// are sent one notification a second, which may be two events.
//
// PagerDuty's library (go-pagerduty) hides the status of an answer in a text of its own. Two small structs replace it.
package pagerduty

// Package datadog sends events to Datadog by its Events API, version 1. The address gives the scheme and the host of the site, such as
// https://api.datadoghq.com, which it is where the Provider has none; the token is an API key.
//
// # What is sent
//
// An event has the title, the text and the tags of Flux. Its alert_type is error for a failure, success for a recovery and info for
// any other event. Its aggregation_key is the object's, so Datadog groups the events of one object. An event monitor that is grouped
// by the key alerts at the error and recovers at the success: events themselves are neither open nor closed.
//
// The recoveries of a Kustomization only update the status of a commit and come at every interval. One is sent only after a failure of
// the object, and once after a start.
//
// The API has no field by which it drops a repeated event. A duplicate is a second event of the same time under the same key.
//
// # Text and limits
//
// Text between "%%%" is Markdown for Datadog, and "@name" notifies a person or a channel; both are broken in the texts of an event. A
// tag's characters beyond letters, digits and _-:./ become "_" at Datadog. Texts are cut to the API's limits.
//
// Datadog refuses an event of more than 18 hours ago. So a delivery that is within 15 minutes of that age or older is sent without its
// time, as an event of now. An event of an hour or more in the future is sent so too.
//
// Datadog's client library is 12 MB of generated source for one POST.
package datadog

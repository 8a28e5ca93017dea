// Package alertmanager fires alerts of Prometheus' Alertmanager for objects that fail and resolves them when the objects recover. The
// address is that of the API's alerts, such as https://alertmanager.example.com/api/v2/alerts. Username and password log in, or else
// the token.
//
// # What is sent
//
//   - A failure posts one firing alert. Its labels are the metadata and, before them, alertname ("Flux", the kind and the reason),
//     severity, reason, kind, name, namespace and reportingcontroller, as Flux has them. Its annotations are the message and the
//     summary.
//   - A recovery looks up the alerts of the object and posts them with an end. It uses the labels that Alertmanager returned, since
//     the reason and the revision of a failure differ from those of the recovery. If nothing fires, nothing is posted. A Kustomization
//     says that it is well at every interval: its alerts are looked up only after a failure, and once after a start.
//   - After a failure was posted, alerts of the object with other labels (of an earlier revision, or for another reason) that its Alert fired
//     are ended the same way. An error there is ignored: the failure was delivered, and the recovery ends the rest.
//   - A replayed notification leaves the alerts of newer failures alone.
//
// The look-up asks for kind, name, namespace and reporting controller. Its result is compared with these again. An alert's annotations
// flux_provider and flux_alert have the UIDs of the Provider and the Alert that fired it. An alert of another Provider is left alone:
// clusters that share an Alertmanager may have objects of one name. A failure leaves the alerts of other Alerts alone, of which Alertmanager
// would notify nobody if they ended at once. A recovery ends them too, since the object has no failure for any Alert. Of an alert without
// these annotations the labels are compared that the Alert's author wrote.
//
// An alert without an end ends by itself after Alertmanager's resolve_timeout, 5 minutes by default; Flux relies on that. Here an
// alert ends 24 hours after its failure was sent, unless the failure is sent again or the object recovers: a deleted object does not
// recover. The time of the send counts, since a failure may be sent again by hand days later.
//
// Alertmanager identifies an alert by its labels, so an alert that is posted twice is one alert.
//
// # Text
//
// Label names are made valid for every version of Alertmanager: a character outside [a-zA-Z0-9_] becomes "_". If two keys become one
// name, the first by order counts. Values and texts are data, which receivers show by templates of their own. They are cut.
//
// The models of Alertmanager's module would bring 51 modules for one struct.
package alertmanager

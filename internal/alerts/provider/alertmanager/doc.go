// Package alertmanager fires alerts of Prometheus' Alertmanager for objects that fail and resolves them when the objects recover. The
// address is that of the API's alerts, such as https://alertmanager.example.com/api/v2/alerts; username and password, or else the token,
// log in.
//
// # What is sent
//
//   - A failure posts one firing alert. Its labels are the metadata and, before them, alertname ("Flux", the kind and the reason),
//     severity, reason, kind, name, namespace and reportingcontroller, as Flux has them. Its annotations are the message and the summary.
//   - A recovery looks up the alerts of the object and posts them with an end, with the labels that Alertmanager returned: the reason and
//     the revision among the labels of a failure are not those of the recovery. Nothing is posted where nothing fires.
//   - After a failure was posted, alerts of the object with other labels (of an earlier revision, or for another reason) are ended the same
//     way. It is done as far as the answer allows: the failure was delivered, and the recovery ends what is left.
//
// The look-up asks for kind, name, namespace and reporting controller. What it returns is compared with these again and with the labels
// that the Alert's author wrote, and an alert that another Provider fired, which the annotation flux_provider tells by its UID, is left alone:
// clusters that share an Alertmanager may have objects of one name.
//
// An alert without an end ends by itself after Alertmanager's resolve_timeout, 5 minutes unless it is set; Flux leaves it to that. Here an
// alert ends 24 hours after its failure unless the failure is told again or the object recovers: an object that was deleted does not
// recover.
//
// Alertmanager knows an alert by its labels, so one that is posted twice is one alert.
//
// # Text
//
// Label names are made valid for every version of Alertmanager: a character outside [a-zA-Z0-9_] becomes "_". Of two that become one the
// first by order counts. Values and texts are data, which receivers show by templates of their own; they are cut.
//
// The models of Alertmanager's module would bring 51 modules for one struct.
package alertmanager

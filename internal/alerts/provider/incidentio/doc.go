// Package incidentio fires alerts of incident.io for objects that fail and resolves them when the objects recover, through an HTTP
// alert source. The address is the source's, https://api.incident.io/v2/alert_events/http/<id>, and the token is the source's own.
//
// A failure is an event of status firing, a recovery an event of status resolved. The deduplication key of both is the object's UID.
// incident.io keeps one firing alert per key, so an event that is sent twice is one alert. A resolved event resolves nothing if no
// alert of its key fires. A Kustomization says that it is well at every interval: that is sent only after a failure, and once after a
// start.
//
// # Text and limits
//
// A description is shown as Markdown, so links in it are broken: no text of an event hides an address behind a label. Title and
// metadata are data. incident.io takes 512 KB, and texts are cut so that every event stays below that, however it is escaped.
//
// incident.io has no Go library for alert events.
package incidentio

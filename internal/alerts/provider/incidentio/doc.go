// Package incidentio fires alerts of incident.io for objects that fail and resolves them when the objects recover, through an HTTP alert
// source: the address is the source's, https://api.incident.io/v2/alert_events/http/<id>, and the token is its own.
//
// A failure is an event of status firing, a recovery one of status resolved. The deduplication key of both is the object's UID: incident.io
// keeps one alert of a key that fires, so an event that is sent twice is one alert. A resolved event of a key that does not fire resolves
// nothing.
//
// # Text and limits
//
// A description is shown as Markdown, so a link in it is broken up: no text of an event hides an address behind a label. Title and metadata
// are data. incident.io takes 512 KB: texts are cut so that no event is beyond that, however it is escaped.
//
// incident.io has no Go library for alert events.
package incidentio

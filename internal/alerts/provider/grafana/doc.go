// Package grafana annotates Grafana's graphs: an event is a point in time, and a failure is a region that lasts until the object recovers.
// The address is that of the annotations, https://grafana.example.com/api/annotations; a token, or else username and password, logs in.
//
// # What is sent
//
// Before anything is written, the newest annotations of the object are read, by its tags. One whose data holds the delivery's ID is this
// very notification, and nothing is written twice. An open region is the newest failure that has no end, which Grafana returns as one whose
// end is its beginning.
//
//   - A failure begins a region; while one is open, its text is replaced instead.
//   - A recovery ends the open region, if there is one, and is a point.
//   - Any other event is a point.
//
// Tags are those of Flux: "flux", the controller, "kind: …", "name: …", "namespace: …" and the metadata. A failure has "severity: error" as
// well, and metadata does not replace any of these. Where reading is refused (HTTP 403) an event is a point, as in Flux.
//
// # Text and limits
//
// Grafana shows a text as HTML, so &, < and > of an event are escaped. It refuses tags that are longer than 500 bytes together, and its
// database those of which a part is longer than 100 characters: metadata that has no room is left out, and a long name is cut and told from
// others by a digest.
//
// Grafana's client library is generated for the whole of its API; three calls do without it.
package grafana

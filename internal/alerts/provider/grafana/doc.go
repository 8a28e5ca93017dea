// Package grafana annotates Grafana's graphs: an event is a point in time, and a failure is a region that lasts until the object
// recovers. The address is that of the annotations, https://grafana.example.com/api/annotations. A token logs in, or else username and
// password.
//
// # What is sent
//
// The newest annotations of the object, by its tags, are read before any write. If one of them has the delivery's ID in its data, the
// notification was written before, and nothing is written again. An open region is the newest failure if it has no end. Grafana
// returns the beginning of such a region as its end, and sorts by the end, so points that follow hide the region: below a full page of
// them it is looked up by its own tag.
//
//   - A failure begins a region. If one is open, its text is replaced instead, unless the failure is replayed and a newer one was
//     sent.
//   - A recovery ends the open region, if there is one, and is a point.
//   - A recovery that only updates the status of a commit, as all of kustomize-controller do, ends the open region and is no
//     point. It comes at every interval, and the region is looked up only after a failure, and once after a start.
//   - Any other event is a point.
//
// Tags are those of Flux: "flux", the controller, "kind: …", "name: …", "namespace: …" and the metadata. A failure also has "severity:
// error". Metadata does not replace any of these. If reading is refused (HTTP 403) an event is a point, as in Flux.
//
// # Text and limits
//
// Grafana shows a text as HTML, so &, < and > of an event are escaped. Control characters are replaced: PostgreSQL, which it may keep
// annotations in, stores no NUL, and Grafana then answers 500. It refuses tags that are longer than 500 bytes together. Its
// database refuses tags with a part longer than 100 characters. Metadata that does not fit is left out. A long name is cut and ends in
// a digest that distinguishes it from others.
//
// Grafana's client library is generated for the whole of its API; three calls need none of it.
package grafana

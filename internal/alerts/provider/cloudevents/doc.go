// Package cloudevents sends notifications as CloudEvents 1.0 in the HTTP binding's binary mode: the body is the Event in JSON, as Flux's
// event API has it, with the Alert's metadata merged, and the context attributes are headers.
//
//   - ce-id: the delivery's ID, the same at every attempt. With ce-source it identifies the event, by which
//     consumers drop a duplicate;
//   - ce-source: "/namespaces/<namespace>/<kind>/<name>", the object, as in the process's own streams;
//   - ce-type: "io.fluxcd.event." and the severity;
//   - ce-subject: "<kind>/<name>.<namespace>", the object as Flux writes it;
//   - ce-time: when the event happened, if it says so;
//   - ce-reason, ce-severity: extensions, since brokers filter by attributes and not by the body;
//   - Content-Type: application/json, which is the attribute datacontenttype.
//
// Values are percent-encoded as section 3.1.3.2 of the binding has it. The token is sent as a bearer token, and the Secret's headers are
// sent along, but for those of the connection and the attributes.
//
// Nothing is cut and nothing resolves: an event is an event. The SDK of CloudEvents brings its own client and its retries for what is a
// handful of headers here; it reads them in the tests.
package cloudevents

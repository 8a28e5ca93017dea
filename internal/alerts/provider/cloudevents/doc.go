// Package cloudevents sends notifications as CloudEvents 1.0 in the HTTP binding's binary mode. The body is the Event in JSON, as
// Flux's event API has it, with the Alert's metadata merged. The context attributes are headers.
//
//   - ce-id: the delivery's ID, the same at every attempt. With ce-source it identifies the event, by which
//     consumers drop a duplicate;
//   - ce-source: "/namespaces/<namespace>/<kind>/<name>", the object, as in the process's own streams;
//   - ce-type: "io.fluxcd.event." and the severity;
//   - ce-subject: "<kind>/<name>.<namespace>", the object as Flux writes it;
//   - ce-time: the time of the event, if it has one;
//   - ce-reason, ce-severity: extensions, since brokers filter by attributes and not by the body;
//   - Content-Type: application/json, which is the attribute datacontenttype.
//
// Values are percent-encoded by section 3.1.3.2 of the binding. The token is sent as a bearer token. The Secret's headers are sent
// too, except those of the connection and the attributes.
//
// Nothing is cut and nothing resolves: an event is an event. The SDK of CloudEvents would bring its own client and retries for a
// handful of headers. The tests read the requests with it.
package cloudevents

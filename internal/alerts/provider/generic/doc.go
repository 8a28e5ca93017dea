// Package generic sends notifications as plain events: the body is the Event in JSON, as Flux's event API has it, with the Alert's
// metadata merged.
//
// Headers of every request:
//
//   - gotk-component: the controller that reported the event;
//   - Idempotency-Key: the delivery's ID, the same at every attempt, by which a receiver can drop duplicates;
//   - Replayed: "true" when the notification had been given up or sent before, so that a receiver can distinguish it from a duplicate;
//   - X-Signature (generic-hmac only): "sha256=" and the hexadecimal HMAC-SHA256 of the body, keyed with the token;
//   - the Secret's headers. They may replace Content-Type, User-Agent and gotk-component, but no header that frames the message or
//     belongs to the connection, and none of the other headers above.
package generic

// Package generic sends notifications as plain events: the body is the Event in JSON, as Flux's event API has it, with the
// Alert's metadata merged.
//
// Headers of every request:
//
//   - gotk-component: the controller that reported the event;
//   - Idempotency-Key: the delivery's ID, the same at every attempt, by which a receiver can drop duplicates;
//   - Replayed: "true" when the notification had been given up or sent before, so that a receiver can tell it from a duplicate;
//   - X-Signature (generic-hmac only): "sha256=" and the hexadecimal HMAC-SHA256 of the body, keyed with the token;
//   - those of the Secret's headers, which may replace Content-Type, User-Agent and gotk-component, but none that frames the
//     message, belongs to the connection, or carries a promise of ours.
package generic

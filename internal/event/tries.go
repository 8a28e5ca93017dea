package event

import (
	"slices"
	"time"
)

// Failed adds a failed attempt, and the time at which the next one is due, zero for never. Copies of the delivery keep their Tries.
func (d *Delivery) Failed(began time.Time, took time.Duration, failure *Error, next time.Time) {
	d.note(Attempt{
		Time: began.UTC(), Millis: took.Milliseconds(), Class: failure.Label, Status: failure.Status, Failure: failure.Reason, Next: next.UTC(),
	})
}

// Succeeded adds the attempt that the destination accepted. It is among the Tries only if others are: Took describes a delivery
// that was accepted at once.
func (d *Delivery) Succeeded(began time.Time, took time.Duration) {
	d.Attempts++
	d.Took = took
	if len(d.Tries) > 0 {
		d.note(Attempt{Time: began.UTC(), Millis: took.Milliseconds(), Class: ClassSent})
	}
}

// note adds an attempt. Beyond MaxTries the first half stays, since it shows how the trouble began, followed by the last ones.
func (d *Delivery) note(a Attempt) {
	kept := d.Tries
	if len(kept) >= MaxTries {
		kept = slices.Concat(kept[:MaxTries/2], kept[len(kept)-MaxTries/2+1:])
	}
	d.Tries = append(slices.Clip(kept), a) // a new array, since copies share the old one
}

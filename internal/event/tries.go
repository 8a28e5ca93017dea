package event

import (
	"slices"
	"time"
)

// Failed notes an attempt that failed, and when the next one is due, zero for never. Copies of the delivery keep the Tries that they have.
func (d *Delivery) Failed(began time.Time, took time.Duration, failure *Error, next time.Time) {
	d.note(Attempt{
		Time: began.UTC(), Millis: took.Milliseconds(), Class: failure.Label, Status: failure.Status, Failure: failure.Reason, Next: inUTC(next),
	})
}

// Succeeded notes the attempt that the destination accepted. It is among the Tries only if others are: of a delivery that was accepted at
// once, Took says all that there is to know.
func (d *Delivery) Succeeded(began time.Time, took time.Duration) {
	d.Attempts++
	d.Took = took
	if len(d.Tries) > 0 {
		d.note(Attempt{Time: began.UTC(), Millis: took.Milliseconds(), Class: ClassSent})
	}
}

// note keeps an attempt. The first half of MaxTries stays, since it tells how the trouble began; after it the last ones are kept.
func (d *Delivery) note(a Attempt) {
	kept := d.Tries
	if len(kept) >= MaxTries {
		kept = slices.Concat(kept[:MaxTries/2], kept[len(kept)-MaxTries/2+1:])
	}
	d.Tries = append(slices.Clip(kept), a) // in memory of its own, for the copies
}

// inUTC keeps a zero time zero.
func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

package alerts

import (
	"fmt"
	"time"

	"notifier/internal/event"
)

// Lost counts and logs a delivery that was given up, and reports it to the owners of its Alert and its Provider, which is looked up where
// dest is nil. The reason is safe to show.
func (d *Deliverer) Lost(lost *event.Delivery, dest *Destination, label, reason string) {
	if dest == nil {
		dest = d.Destinations.Get(lost.Namespace, lost.Provider)
	}
	object := lost.Event.InvolvedObject.String()
	d.metrics.count(dest, outcomeDead, label)
	if left, ok := d.logLines.Admit(lost.Namespace); ok {
		d.Log.Warn("delivery", "outcome", outcomeDead, "id", lost.ID, "namespace", lost.Namespace, "object", object, "alert", lost.Alert,
			"provider", lost.Provider, "attempts", lost.Attempts, "reason", reason, "lines_left_out", left)
	}
	d.recordFailure(lost, reason)
	d.Reports.note(lost, dest, verdict{outcome: outcomeDead, label: label, reason: reason}, time.Now())
	if dest == nil || lost.Test { // a test message's failure was recorded above, and no notification is lost
		return
	}
	d.Recorder.Event(kindProvider, lost.Namespace, lost.Provider, dest.UID, warning, ReasonGivenUp,
		fmt.Sprintf("notification about %s for Alert %s was given up: %s", object, lost.Alert, reason))
}

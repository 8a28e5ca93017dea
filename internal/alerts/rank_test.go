package alerts

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// Fails when deliveries are sent in the order of their events alone, on the way to the schedule or off it; when the predecessors of an
// error in its own line are left behind; and when an error overtakes them (E4).
func TestOfManyMessagesAtOnceErrorsAreSentFirst(t *testing.T) {
	for _, many := range []int{95, 400} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &sink{}
				w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "slack", Version: "1", Sender: dest, Limit: 1, Burst: 3})
				of := func(severity, object string) string {
					d := w.delivery("chat", object)
					d.Event.Severity = severity
					w.bus.publish(d)
					return d.ID
				}
				_, stop := w.run()
				for i := range many {
					of(event.SeverityInfo, fmt.Sprint("app", i))
				}
				wait(time.Second)
				before := of(event.SeverityInfo, "late")
				errs := []string{of(event.SeverityError, "late")}
				for i := range 4 {
					errs = append(errs, of(event.SeverityError, fmt.Sprint("broken", i)))
				}
				wait(time.Duration(many+20) * time.Second)
				stop()
				got := dest.ids()
				if len(got) != many+6 {
					t.Fatalf("%d of %d were sent", len(got), many+6)
				}
				for _, id := range errs {
					if at := slices.Index(got, id); at > 12 {
						t.Errorf("an error was sent as number %d", at)
					}
				}
				if slices.Index(got, before) > slices.Index(got, errs[0]) {
					t.Error("an error overtook its object's earlier event")
				}
			})
		})
	}
}

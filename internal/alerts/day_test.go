package alerts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// The events of Flux about a namespace in a day: each object at every interval, and all of them together once an hour, as after a push to
// their shared repository. Some objects then have two events.
const (
	dayObjects = 50
	interval   = 10 * time.Minute
	dayStep    = interval / dayObjects
	pushEvery  = time.Hour
	pushEvents = dayObjects + 10
	dayEvents  = int(24*time.Hour/dayStep) + 24*pushEvents
)

// dayTypes has the metric's label for each Provider's type.
var dayTypes = map[string]string{
	"healthy": "slack", "hanging": "generic", "unready": "discord", "unsupported": otherType, "witness": "msteams",
}

// hangingFor is the timeout of the hanging destination. healthyTakes is the time of the healthy one for a message. The process is
// restarted now and then, and deliveries that the healthy one has not yet accepted wait too.
const (
	hangingFor   = 15 * time.Second
	healthyTakes = 50 * time.Millisecond
	restartEvery = 3 * time.Hour
	restartAt    = 15 * time.Minute
	restartTakes = 2 * time.Minute
)

// TestE5AHealthyProviderLosesNothingBesideBrokenOnes is E5 over a day, from the event to the outcome. A healthy Provider shares its
// namespace with three broken ones: one is unsupported, one lacks its Secret and one hangs. The healthy one gets every event in order and
// once: at once, even in bursts beyond the quota, or soon after a restart. So does a Provider of another namespace. Every event of the
// broken ones is accounted for, at the end of the day and when the deliveries that waited then have expired. It waits, or it was given
// up: then the statuses of its Alert and its Provider count it, a Kubernetes Event on each reports it, and the metric counts it by its
// reason. A waiting delivery is not written again.
//
// Fails when excess ignores perProvider; when enforceShare counts and gives up direct deliveries, or gives up nothing; when lost, for any
// one label, omits note, record or count, or counts another; when the router does not call Lost; when expire drops; when died or lose
// does not count; or when putBack reschedules for an hour.
func TestE5AHealthyProviderLosesNothingBesideBrokenOnes(t *testing.T) {
	t.Parallel()
	for _, quota := range []int{40, 10_000} {
		t.Run(fmt.Sprint("quota ", quota), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDay(t, quota)
				stop := d.begin()
				d.play()
				wait(time.Minute)
				d.compare("after a day", map[string][]string{
					"hanging": {event.LabelQuota}, "unready": {event.LabelQuota}, "unsupported": {labelUnsupported},
				})
				if d.most > quota || d.most < quota*9/10 {
					t.Errorf("at most %d were waiting, the quota is %d", d.most, quota)
				}
				written := d.written("unready")
				wait(22 * time.Hour)
				if n := d.written("unready") - written; n != 0 {
					t.Errorf("%d writes in 22 hours of waiting for the unready Provider", n)
				}
				wait(28 * time.Hour) // its lifetime begins with its first attempt, which may be the last of its day
				waited := []string{labelExpired, event.LabelQuota}
				d.compare("when all has expired", map[string][]string{"hanging": waited, "unready": waited, "unsupported": {labelUnsupported}})
				if n := d.bus.left() + d.events.open(); n != 0 {
					t.Errorf("%d wait in the end", n)
				}
				if n := d.written("unready"); n > dayEvents {
					t.Errorf("%d writes put %d deliveries away", n, dayEvents)
				}
				stop()
			})
		})
	}
}

// day simulates a day: the router and the deliverer over a bus.
type day struct {
	*world
	events           *fakeStream
	healthy, witness *sink
	// published has the events of each namespace in order.
	published map[string][]*event.Record
	began     time.Time
	// most is the greatest number of deliveries that waited on the bus.
	most int
}

func newDay(t *testing.T, quota int) *day {
	d := &day{
		world: newWorld(t), events: newFakeStream(), healthy: &sink{}, witness: &sink{},
		published: map[string][]*event.Record{}, began: time.Now(),
	}
	d.notes.brief = true
	d.quota, d.types = quota, slices.Sorted(maps.Values(dayTypes))
	d.types = slices.DeleteFunc(d.types, func(t string) bool { return t == otherType })
	d.alerts.Delete("team-a/alert")
	d.provide("team-a", "healthy", &Destination{Sender: sendFunc(func(ctx context.Context, n provider.Notification) error {
		pass(healthyTakes)
		if at := time.Since(d.began) % restartEvery; at >= restartAt && at < restartAt+restartTakes {
			return failure(event.Retry, provider.LabelConnect)
		}
		return d.healthy.Send(ctx, n)
	})})
	d.provide("team-a", "hanging", &Destination{Sender: sendFunc(func(ctx context.Context, _ provider.Notification) error {
		ctx, cancel := context.WithTimeout(ctx, hangingFor)
		defer cancel()
		<-ctx.Done()
		return event.NewError(event.Retry, provider.LabelTimeout, "no answer in time", ctx.Err())
	})})
	d.provide("team-a", "unready", &Destination{NotReady: "Secret hook not found"})
	d.provide("team-a", "unsupported", &Destination{Type: "odd", Unsupported: true, NotReady: "type odd is not supported"})
	d.provide("team-b", "witness", &Destination{Sender: d.witness})
	return d
}

// provide makes a Provider, and an Alert on all objects of its namespace.
func (d *day) provide(namespace, name string, dest *Destination) {
	dest.UID, dest.Type = "p-"+name, cmp.Or(dest.Type, dayTypes[name])
	d.destinations.Put(namespace, name, dest)
	d.alert(namespace, name, "uid-"+name, name)
}

// begin starts the router and the deliverer, and returns the function that stops both.
func (d *day) begin() (stop func()) {
	d.t.Helper()
	s, stopDeliverer := d.run()
	r := NewRouter(d.events, s.dispatcher)
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		d.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			d.t.Errorf("the router: %v", err)
		}
		stopDeliverer()
	}
}

// play makes the events of a day. Some of the objects fail.
func (d *day) play() {
	for step := range int(24 * time.Hour / dayStep) {
		wait(dayStep)
		d.most = max(d.most, d.bus.left())
		d.happen("team-a", step, 1)
		if at := time.Duration(step) * dayStep; at%pushEvery == pushEvery/2 {
			d.happen("team-a", 0, pushEvents)
		}
		if step%dayObjects == 0 {
			d.happen("team-b", step, 1)
		}
	}
}

// happen makes n events at once, one object after the other.
func (d *day) happen(namespace string, from, n int) {
	records := make([]*event.Record, n)
	for i := range records {
		object := (from + i) % dayObjects
		rec := recordOf(func(r *event.Record) {
			r.Event.InvolvedObject = kustomization(namespace, fmt.Sprint("app-", object))
			r.Event.Reason, r.Event.Timestamp = "ReconciliationSucceeded", time.Now()
			if object%7 == 0 {
				r.Event.Severity, r.Event.Reason, r.Event.Message = "error", "HealthCheckFailed", "timeout waiting for Deployment/app"
			}
			r.Known, r.Accepted, r.Source = true, time.Now(), event.SourcePost
		})
		records[i] = rec
	}
	d.published[namespace] = append(d.published[namespace], records...)
	d.events.publish(records...)
}

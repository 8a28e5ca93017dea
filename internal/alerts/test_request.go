package alerts

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

const (
	// maxTestValue bounds the value of a request for a test message.
	maxTestValue = 256
	// testMemory is the least time for which a value is remembered.
	testMemory = time.Hour

	reasonTest = "Test"
	// providerVersion is the apiVersion of Providers in events about them.
	providerVersion = "notification.toolkit.fluxcd.io/v1"
	// reportingController is the controller in events of this program.
	reportingController = "notifier"
)

// Test sends a test message through a Provider, and returns when the message is on the bus. From there it is a delivery like others.
// Equal values yield the same delivery, which is sent once. For a Provider that cannot be sent to, or whose type takes no such message,
// Test returns an *event.Error with the reason. It returns view.ErrNotFound if there is no such Provider.
func (d *Deliverer) Test(ctx context.Context, namespace string, req view.TestRequest) (view.TestResult, error) {
	dest := d.Destinations.Get(namespace, req.Provider)
	if dest == nil {
		return view.TestResult{}, view.ErrNotFound
	}
	t := testMessage(namespace, req, dest)
	if why := untestable(&t, req, dest); why != "" {
		return view.TestResult{}, event.NewError(event.Permanent, labelRefused, why, nil)
	}
	result := view.TestResult{DeliveryID: t.ID}
	turn, err := d.asked.Acquire(ctx, namespace, 1)
	if err != nil {
		return view.TestResult{}, err
	}
	defer turn.Release()
	known, err := d.Bus.FindDeliveries(ctx, namespace, t.Routed.Add(-testMemory), []string{t.ID})
	if err != nil {
		return view.TestResult{}, fmt.Errorf("look for the test message: %w", err)
	}
	if _, was := known[t.ID]; was {
		return result, nil
	}
	key := event.ProviderKey{Namespace: namespace, Provider: req.Provider}
	if !d.rate.Allow(key) {
		return view.TestResult{}, tooOften()
	}
	e := endedOf(&t, 0)
	e.sent = &t
	_, _, err = d.resend(ctx, key, []ended{e}) // a refused delivery waits already
	return result, err
}

// testMessage returns the delivery of a test message. Like a delivery from the schedule, it is looked up in the history before it is
// sent.
func testMessage(namespace string, req view.TestRequest, dest *Destination) event.Delivery {
	now := time.Now()
	return event.Delivery{
		ID: event.TestID(namespace, dest.UID, req.Value), Namespace: namespace, Provider: req.Provider, ProviderUID: dest.UID,
		Destination: dest.Version, Test: true, Known: true, Routed: now, Reschedules: 1,
		Event: event.Event{
			InvolvedObject: event.ObjectReference{
				APIVersion: providerVersion, Kind: kindProvider, Namespace: namespace, Name: req.Provider, UID: dest.UID,
			},
			Severity: event.SeverityInfo, Timestamp: now, Reason: reasonTest, ReportingController: reportingController,
			Message: fmt.Sprintf("This is a test message that was asked for. Provider %s in namespace %s works.", req.Provider, namespace),
		},
	}
}

// untestable returns why a test message is not sent, "" if it is.
func untestable(t *event.Delivery, req view.TestRequest, dest *Destination) string {
	switch {
	case len(req.Value) > maxTestValue:
		return fmt.Sprintf("the value is longer than %d bytes", maxTestValue)
	case dest.Suspended:
		return "the Provider is suspended: unset its spec.suspend"
	case dest.Unsupported:
		return "the Provider's type is not supported"
	case dest.Sender == nil:
		return "the Provider cannot be used: " + dest.NotReady
	case !dest.takes(notification(t)):
		return "the Provider's type is sent only events about commits or change requests, and a test message is about neither"
	}
	return ""
}

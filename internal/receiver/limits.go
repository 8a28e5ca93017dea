package receiver

import (
	"errors"
	"fmt"
	"time"
)

// MaxBody is the greatest body either door accepts, in bytes.
const MaxBody = 3 << 20

// bufferSize is what a webhook that is being read costs: bodies are hashed as they arrive and not kept.
const bufferSize = 16 << 10

// Limits bound what senders may ask of the webhook door. A rate is in events per second; a rate of 0 switches its budget off.
type Limits struct {
	// Unknown is the budget of unknown paths per client address.
	Unknown Budget
	// Failure is the budget of failed authentications per path.
	Failure Budget
	// Receiver is the budget of authentic deliveries per Receiver. Beyond it they are answered 202 and still trigger.
	Receiver Budget
	// Path, Namespace and Total bound in bytes what is held at once for webhooks being read: of one path, of one namespace,
	// and in all. Reserve is what each namespace may hold even when Total is used up. A webhook counts as 16 KiB, so these
	// are also the caps on requests in flight.
	Path, Namespace, Total, Reserve int64
	// Wait is how long a webhook waits for room before it is refused with 503.
	Wait time.Duration
}

// Budget is a token bucket: Rate per second on average, Burst at once.
type Budget struct {
	Rate  float64
	Burst int
}

// DefaultLimits are the limits of a stock install: 256 webhooks being read at once on one path, 1024 in one namespace, 4096 in
// all and 8 more for each namespace, which is 64 MiB and 128 KiB a namespace.
func DefaultLimits() Limits {
	return Limits{
		Unknown:   Budget{Rate: 10, Burst: 100},
		Failure:   Budget{Rate: 5, Burst: 50},
		Receiver:  Budget{Rate: 20, Burst: 100},
		Path:      256 * bufferSize,
		Namespace: 1024 * bufferSize,
		Total:     4096 * bufferSize,
		Reserve:   8 * bufferSize,
		Wait:      2 * time.Second,
	}
}

func (l Limits) validate() error {
	var errs []error
	for name, b := range map[string]Budget{"unknown path": l.Unknown, "failure": l.Failure, "receiver": l.Receiver} {
		errs = append(errs, b.validate(name))
	}
	if l.Path < bufferSize || l.Namespace < l.Path || l.Total < l.Namespace {
		errs = append(errs, fmt.Errorf("caps in bytes must be at least %d and grow from path to namespace to total", bufferSize))
	}
	if l.Reserve < 0 {
		errs = append(errs, errors.New("the reserve of a namespace is negative"))
	}
	if l.Wait < 0 {
		errs = append(errs, errors.New("the wait for room is negative"))
	}
	return errors.Join(errs...)
}

func (b Budget) validate(name string) error {
	switch {
	case b.Rate < 0 || b.Burst < 0:
		return fmt.Errorf("%s budget is negative", name)
	case b.Rate > 0 && b.Burst == 0:
		return fmt.Errorf("%s budget has a rate and no burst, so that it would admit nothing", name)
	}
	return nil
}

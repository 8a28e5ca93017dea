package receiver

import (
	"errors"
	"fmt"
	"math"
	"time"

	"notifier/internal/receiver/limit"
)

// Limits bound the use of the webhook endpoint by senders. A rate is in events per second; a rate of 0 switches its budget off.
type Limits struct {
	// Unknown is the budget of unknown paths per client address.
	Unknown limit.Budget
	// Failure is the budget of failed authentications per path.
	Failure limit.Budget
	// Receiver is the budget of authentic webhooks per Receiver, the ceiling of every Hook.RateLimit. Webhooks beyond it are answered 202 and
	// still trigger.
	Receiver limit.Budget
	// Tenant is the same per namespace, for the webhooks that were within their Receiver's.
	Tenant limit.Budget
	// Requests caps the webhooks that are being read at once. One costs 16 KiB.
	Requests Caps
	// Bodies caps the bytes of bodies that are kept at once, beyond the first 16 KiB of each, for types and filters that read them. At each
	// level the rest of one body may be kept in addition, so that bodies never wait for each other.
	Bodies Caps
	// Triggers caps the triggers that are being stored at once. One costs a KiB.
	Triggers Caps
	// Wait is the time after which a webhook that waits for capacity is refused with 503.
	Wait time.Duration
}

// Caps bound concurrent use: Path is the most for one path, Namespace for one namespace, and Total for all. Reserve is for each namespace
// even when Total is used up.
type Caps struct{ Path, Namespace, Total, Reserve int64 }

// share divides total: a namespace may have a quarter of it, a path a sixteenth, and neither less than least. A total of 0 is no cap.
func share(total, least, reserve int64) Caps {
	if total == 0 {
		return Caps{Path: math.MaxInt64, Namespace: math.MaxInt64, Total: math.MaxInt64, Reserve: reserve}
	}
	return Caps{Path: max(total/16, least), Namespace: max(total/4, least), Total: total, Reserve: reserve}
}

// requestReserve is the number of webhooks that each namespace may send at once when all others take the rest.
const requestReserve = 8

// RequestCaps returns the caps for total webhooks being read at once, 0 for no cap.
func RequestCaps(total int64) Caps {
	return share(total, 1, requestReserve)
}

// bodyReserve is the number of bytes of bodies that each namespace may have at once when all others take the rest: a few times the body of
// most webhooks.
const bodyReserve = 128 << 10

// BodyCaps returns the caps for total bytes of bodies, 0 for no cap. A path has capacity for at least one body.
func BodyCaps(total int64) Caps {
	return share(total, limit.MaxBody, bodyReserve)
}

// storedAtOnce is the number of triggers that may be being stored at once: 64 MiB.
const storedAtOnce = 64 << 10

// maxTriggers is at least the number of triggers of one webhook: of a Receiver's resources, and of the objects that its filters choose.
const maxTriggers = 2048

// triggerReserve is the number of triggers that each namespace may be storing when all others take the rest: those of two webhooks for
// Receivers with as many resources as they may have.
const triggerReserve = 1024

// TriggerCaps returns the caps for total triggers being stored, 0 for no cap. A path has capacity for at least one webhook.
func TriggerCaps(total int64) Caps {
	return share(total, maxTriggers, triggerReserve)
}

// DefaultLimits returns the limits of a stock install: 256 webhooks being read at once on one path, 1024 in one namespace, 4096 in all and
// 8 more for each namespace. That is 64 MiB, and 128 KiB a namespace. The limits of bodies and of triggers are about the same, with 1 MiB of
// triggers a namespace.
func DefaultLimits() Limits {
	return Limits{
		Unknown:  limit.Budget{Rate: 10, Burst: 100},
		Failure:  limit.Budget{Rate: 5, Burst: 50},
		Receiver: limit.Budget{Rate: 50, Burst: 200},
		Tenant:   limit.Budget{Rate: 200, Burst: 1000},
		Requests: RequestCaps(4096),
		Bodies:   BodyCaps(64 << 20),
		Triggers: TriggerCaps(storedAtOnce),
		Wait:     2 * time.Second,
	}
}

func (l Limits) validate() error {
	var errs []error
	for name, b := range map[string]limit.Budget{
		"unknown path": l.Unknown, "failure": l.Failure, "receiver": l.Receiver, "namespace": l.Tenant,
	} {
		errs = append(errs, b.Validate(name))
	}
	errs = append(errs, l.Requests.validate("requests", 1), l.Bodies.validate("bodies", limit.MaxBody),
		l.Triggers.validate("triggers", maxTriggers))
	if l.Wait < 0 {
		errs = append(errs, errors.New("the wait for capacity is negative"))
	}
	return errors.Join(errs...)
}

func (c Caps) validate(name string, least int64) error {
	if c.Path < least || c.Namespace < c.Path || c.Total < c.Namespace || c.Reserve < 0 {
		return fmt.Errorf("caps on %s must be at least %d, grow from path to namespace to total, and have no negative reserve", name, least)
	}
	return nil
}

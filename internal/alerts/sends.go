package alerts

import (
	"time"

	"notifier/internal/fair"
)

// Bounds on the sends that are under way. A send to a destination that hangs keeps a connection, goroutines and the request until it times
// out, 42 KiB as measured over TLS, and a tenant can make any number of Providers.
const (
	// maxSends is for all namespaces together, beyond sendReserve for each.
	maxSends    = 4096
	sendReserve = 32
	// namespaceSends is for the Providers of one namespace.
	namespaceSends = 1024
	// furtherSends is for the sends of a namespace's Providers beyond the first of each, and for the probes of destinations that fail. The rest
	// of namespaceSends is for first sends: any number of Providers that hang leave the healthy ones beside them a send each (invariant E5).
	furtherSends = 512
	// placePause is how soon a queue that found no place looks for one again.
	placePause = 250 * time.Millisecond
)

// sends are the places of the sends that are under way.
type sends struct {
	all, further *fair.Capacities[string]
}

func newSends() *sends {
	return &sends{
		all:     fair.NewCapacities[string](fair.NewCapacity(maxSends), namespaceSends, sendReserve),
		further: fair.NewCapacities[string](nil, furtherSends, 0),
	}
}

// sendPlace is the place of one send. Its owner releases it when the send has ended.
type sendPlace struct{ all, further fair.KeyUse[string] }

// take takes a place for a send to a Provider of a namespace. With further the Provider has other sends under way, or is being probed. It
// reports whether there was one.
func (s *sends) take(namespace string, further bool) (p sendPlace, ok bool) {
	if further {
		if p.further, ok = s.further.TryAcquire(namespace, 1); !ok {
			return sendPlace{}, false
		}
	}
	if p.all, ok = s.all.TryAcquire(namespace, 1); !ok {
		p.further.Release()
		return sendPlace{}, false
	}
	return p, true
}

func (p *sendPlace) release() {
	p.all.Release()
	p.further.Release()
}

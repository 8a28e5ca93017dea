package alerts

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Sender makes one attempt to send a notification; its errors are *event.Error.
type Sender interface {
	Send(ctx context.Context, n provider.Notification) error
}

// Destination is a Provider that is ready to be sent to, or the reason why it is not. It is immutable.
type Destination struct {
	// UID and Type are the Provider's.
	UID, Type string
	// Created is the Provider's creationTimestamp.
	Created time.Time
	// Version changes whenever the Provider's configuration does, its Secrets included. Changed is when it last changed in this process, or if
	// it did not, when its Secrets were last written; zero for none.
	Version string
	Changed time.Time
	// Sender is nil while the Provider cannot be used. NotReady then has the reason, safe to show, and its deliveries wait.
	Sender   Sender
	NotReady string
	// Takes reports whether the Provider's type is sent a notification; nil means every notification.
	Takes provider.Takes
	// Unsupported says that the type will never have a Sender: its deliveries become dead letters at once.
	Unsupported bool
	// Suspended drops events: those that occur during the suspension are not routed, and deliveries that were routed before end as dead
	// letters.
	Suspended bool
	// Limit and Burst are the rate limit that the destination publishes. Zero and rate.Inf mean no limit.
	Limit rate.Limit
	Burst int
}

// takes reports whether the destination is sent a notification.
func (d *Destination) takes(n provider.Notification) bool { return d.Takes == nil || d.Takes(n) }

// Destinations has the Providers. A send uses the current entry of the table, so new credentials count at once.
type Destinations struct {
	entries sync.Map // event.ProviderKey → *Destination

	mu sync.Mutex
	// types are the supported types that a Provider has or had.
	types map[string]bool
	// onType is called once with each of them.
	onType func(string)
}

// NewDestinations returns an empty table.
func NewDestinations() *Destinations { return &Destinations{types: map[string]bool{}} }

// Put adds a Provider or replaces it.
func (t *Destinations) Put(namespace, name string, d *Destination) {
	t.mu.Lock()
	if !d.Unsupported && !t.types[d.Type] {
		t.types[d.Type] = true
		if t.onType != nil {
			t.onType(d.Type)
		}
	}
	t.mu.Unlock()
	t.entries.Store(event.ProviderKey{Namespace: namespace, Provider: name}, d)
}

// eachType calls f with each supported type that a Provider has or will have, before the first send to a Provider of the type.
func (t *Destinations) eachType(f func(string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onType = f
	for name := range t.types {
		f(name)
	}
}

// Delete removes a Provider.
func (t *Destinations) Delete(namespace, name string) {
	t.entries.Delete(event.ProviderKey{Namespace: namespace, Provider: name})
}

// Get returns the Provider of that name, nil if there is none.
func (t *Destinations) Get(namespace, name string) *Destination {
	v, ok := t.entries.Load(event.ProviderKey{Namespace: namespace, Provider: name})
	if !ok {
		return nil
	}
	return v.(*Destination)
}

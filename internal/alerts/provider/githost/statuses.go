package githost

import (
	"context"
	"sync"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Last is the last status of a name on a commit, as the host has it.
type Last struct {
	// Same means that its state and description equal those to be set.
	Same bool
	// Set is the time at which it was set, zero if there is no status or the host gives no time.
	Set time.Time
}

// StatusHost is the part of a host's API that statuses need.
type StatusHost interface {
	// LastStatus returns the last status of s.Name on s.Commit.
	LastStatus(ctx context.Context, s Status) (Last, error)
	// SetStatus sets a status.
	SetStatus(ctx context.Context, s Status) error
}

// Statuses sends notifications as statuses of commits.
type Statuses struct {
	client *provider.Client
	host   StatusHost
	naming naming
	limits Limits
	// pending means that the type has a state for work under way.
	pending bool
	latest  latest
}

// NewStatuses returns the Statuses of a Provider. With pending, work under way gets a status too.
func NewStatuses(cfg provider.Config, client *provider.Client, host StatusHost, limits Limits, pending bool) *Statuses {
	return &Statuses{client: client, host: host, naming: naming{cfg.UID, cfg.StatusName}, limits: limits, pending: pending}
}

// Send sets the status of a notification, unless the host has the same one. A replayed notification sets none over a newer status.
func (s *Statuses) Send(ctx context.Context, n provider.Notification) error {
	if !s.pending && stateOf(n) == Pending {
		return nil // the Provider had another type when the event was routed
	}
	status, err := statusOf(ctx, &s.naming, s.limits, n)
	if err != nil {
		return event.AsError(err)
	}
	return s.client.Call(ctx, func(ctx context.Context) error {
		last, err := s.host.LastStatus(ctx, status)
		if err != nil {
			return err
		}
		if n.Replayed && s.latest.overtaken(status, n.Event.Timestamp, last.Set) {
			return nil
		}
		if !last.Same {
			if err := s.host.SetStatus(ctx, status); err != nil {
				return err
			}
		}
		s.latest.note(n.Event.InvolvedObject.Namespace, status, n.Event.Timestamp, time.Now())
		return nil
	})
}

// maxLatest bounds the number of statuses whose latest event a Provider's Sender remembers.
const maxLatest = 512

type statusKey struct{ commit, name string }

// latest remembers the times of the events of the statuses that this process set.
type latest struct {
	mu    sync.Mutex
	times *provider.Memory[statusKey, time.Time]
}

// note records that the status is that of an event of a namespace at the time at. A time in the future is the sender's claim and counts as
// now.
func (l *latest) note(namespace string, s Status, at, now time.Time) {
	if at.After(now) {
		at = now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == nil {
		l.times = provider.NewMemory[statusKey, time.Time](namespace, maxLatest)
	}
	l.times.Add(statusKey{s.Commit, s.Name}, at)
}

// overtaken reports whether the status was set for a later event than the one at the time at. For a status that this process set it
// compares the event's time, for any other the time set at which the host took it.
func (l *latest) overtaken(s Status, at, set time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times != nil {
		if known, ok := l.times.Get(statusKey{s.Commit, s.Name}); ok {
			return known.After(at)
		}
	}
	return set.After(at)
}

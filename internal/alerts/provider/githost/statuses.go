package githost

import (
	"context"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Last is the last status of a name on a commit, as the host has it.
type Last struct {
	// State and Description are empty if there is no status.
	State, Description string
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
	*provider.Client
	host StatusHost
	form Form
	// uid is the Provider's UID. expr, unless it is nil, returns the name of a status.
	uid    string
	expr   func(ctx context.Context, n provider.Notification) (string, error)
	latest latest
	now    func() time.Time
}

// NewStatuses returns the Statuses of a Provider.
func NewStatuses(cfg provider.Config, client *provider.Client, host StatusHost, form Form) *Statuses {
	return &Statuses{Client: client, host: host, form: form, uid: cfg.UID, expr: cfg.StatusName, now: time.Now}
}

// Send sets the status of a notification, unless the host has the same one. A replayed notification sets none over a newer status.
func (s *Statuses) Send(ctx context.Context, n provider.Notification) error {
	if s.form.Pending == "" && pending(n) {
		return nil // the Provider had another type when the event was routed
	}
	status, err := s.statusOf(ctx, n)
	if err != nil {
		return event.AsError(err)
	}
	return s.Call(ctx, func(ctx context.Context) error {
		s.latest.doubt(status) // until this attempt has succeeded: it may set the status and lose the answer, or be given up and replayed
		last, err := s.host.LastStatus(ctx, status)
		if err != nil {
			return err
		}
		if n.Replayed && s.latest.overtaken(status.key(), n.Event.Timestamp, last.Set) {
			return nil
		}
		if last.State != status.State || last.Description != status.Description {
			if err := s.host.SetStatus(ctx, status); err != nil {
				return err
			}
		}
		s.latest.note(n, status.key(), status.digest(), s.now())
		return nil
	})
}

// Needless reports whether the host had the notification's status lately. A Kustomization asks for an update of its status at every interval,
// which costs a request and a token of the host's limit. The name of a status by an expression is known only when it is sent: the caller is
// a loop that serves many tenants, and evaluating a tenant's expression over an event of megabytes would delay the others.
func (s *Statuses) Needless(n provider.Notification) bool {
	if s.expr != nil || n.Replayed || s.latest.empty() {
		return false
	}
	status, err := s.statusOf(context.Background(), n)
	return err == nil && s.latest.holds(n, status, s.now())
}

package alerts

import (
	"sync/atomic"
	"time"

	"notifier/internal/alerts/filter"
)

// AlertSpec is an Alert as its author wrote it.
type AlertSpec struct {
	Namespace, Name, UID string
	// Created is the Alert's creationTimestamp.
	Created time.Time
	// Provider is the name of a Provider in the Alert's namespace.
	Provider string
	// Severity is "info", which takes all events, or "error". Empty means info.
	Severity string
	Sources  []Source
	// Inclusion and Exclusion are regular expressions on the event's message. An empty Inclusion admits everything;
	// Exclusion wins.
	Inclusion, Exclusion []string
	// Metadata is spec.eventMetadata.
	Metadata map[string]string
	Summary  string
	Suspend  bool
}

// Source selects objects whose events an Alert wants.
type Source struct {
	Kind string
	// Name is an object's name, or "*" for every object of the kind.
	Name string
	// Namespace is empty or the Alert's own. A source with another one is denied.
	Namespace string
	// MatchLabels, unless nil, must all be among the object's labels.
	MatchLabels map[string]string
}

// Alert is a compiled Alert. Once it is in a Table it is immutable and safe for concurrent use.
type Alert struct {
	Namespace, Name, UID string
	Created              time.Time
	Provider             string
	*extras              // never nil

	suspended bool
	// inert says that the spec is not served at all.
	inert      bool
	errorsOnly bool
	// sources are in the index of the Alert's namespace, whose lock protects their places.
	sources []*source
	// seen is when the Table first had an Alert of this UID, by this process's clock.
	seen time.Time

	// conflictTold is when a metadata conflict was last reported, in Unix nanoseconds. One report in a minute is enough.
	conflictTold atomic.Int64
}

// extras are the fields that only a few Alerts use. All others share noExtras.
type extras struct {
	// Denied are the sources that name another namespace. They are not served (invariant E1).
	Denied []Source
	// Unserved names the patterns that are beyond a bound and not served, empty for none.
	Unserved string

	filter   filter.Filter
	metadata map[string]string
	summary  string
}

var noExtras extras

// share replaces the extras of a compiled Alert by noExtras if they are empty.
func (a *Alert) share() {
	x := a.extras
	if len(x.Denied)+len(x.Unserved)+len(x.metadata)+len(x.summary) == 0 && x.filter.Empty() {
		a.extras = &noExtras
	}
}

// youngerThan reports whether the Alert was made after a time. Both the second of its creation and the time at which this process first
// saw it must be later: the first is by the API server's clock, the second by this process's. An event that was accepted before an Alert
// was made is not for it: its namespace may have been another tenant's (invariant E1).
func (a *Alert) youngerThan(accepted time.Time) bool {
	return a.Created.After(accepted) && a.seen.After(accepted) && !accepted.IsZero()
}

// conflictDue reports whether a metadata conflict may be reported: at most once a minute.
func (a *Alert) conflictDue(now time.Time) bool {
	last := a.conflictTold.Load()
	return now.UnixNano()-last >= int64(time.Minute) && a.conflictTold.CompareAndSwap(last, now.UnixNano())
}

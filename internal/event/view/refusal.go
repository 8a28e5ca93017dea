package view

import "time"

// Refusal is the error of a request that is understood and not done.
type Refusal struct {
	// Reason says why, safe to show.
	Reason string `json:"reason"`
	// After is the time after which the same request may be done, zero when waiting does not help.
	After time.Duration `json:"after,omitempty"`
}

func (r *Refusal) Error() string { return r.Reason }

package receiver

import (
	"net/http"
	"sync"
	"time"

	"notifier/internal/receiver/answer"
)

// maxShownID bounds in bytes a webhook's ID in a status.
const maxShownID = 128

// maxFault bounds in bytes the text of a failed filter in a status.
const maxFault = 512

// Deliveries counts the webhooks or events of one Receiver on one replica since Since. Nothing in it is secret.
type Deliveries struct {
	// UID is the Receiver's, so that counts of a deleted Receiver are not shown on its successor.
	UID       string    `json:"uid"`
	Since     time.Time `json:"since"`
	Accepted  int64     `json:"accepted,omitempty"`
	Folded    int64     `json:"folded,omitempty"`
	Duplicate int64     `json:"duplicate,omitempty"`
	Refused   int64     `json:"refused,omitempty"`
	Failed    int64     `json:"failed,omitempty"`
	Last      Outcome   `json:"last,omitzero"`
	LastError Outcome   `json:"lastError,omitzero"`
	// PreviousToken is the time of the last authentic webhook over the path of a previous token.
	PreviousToken time.Time `json:"previousToken,omitzero"`
}

// Outcome is one webhook or event and its result; the zero value is none.
type Outcome struct {
	Time time.Time `json:"time"`
	// ID is the sender's, only of an accepted webhook, in printable ASCII.
	ID     string `json:"id,omitempty"`
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
}

// Stats counts the webhooks or events of one Receiver, as long as it is the same object. Counting takes a lock that is kept for no longer
// than the copy of an ID. It allocates for the first few webhooks after a report, and for no others.
type Stats struct {
	UID   string
	Since time.Time

	mu                                           sync.Mutex
	accepted, folded, duplicate, refused, failed int64
	// fault is the last fault, nil for none, and faultAt its time.
	fault   *answer.Answer
	faultAt time.Time
	// previousAt is when a previous token last proved a webhook, zero for never.
	previousAt time.Time
	// last is the last accepted webhook, nil for none: most Receivers wait long for the first one.
	last *single
	// results are those since the last take, nil for none.
	results *results

	// reported belongs to the Reporter.
	reported reported
}

// NewStats returns the Stats of the Receiver with this UID, counting from now on.
func NewStats(uid string, now time.Time) *Stats { return &Stats{UID: uid, Since: now} }

// Count counts one answer to a request of the Receiver, or the corresponding answer for an event. The fault of an accepted webhook gets the
// same time as its acceptance.
func (s *Stats) Count(a *answer.Answer, of Received, now time.Time) {
	one := single{at: now, answer: a, targets: of.Targets, fault: of.Fault}
	one.length = copy(one.id[:], of.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.results == nil {
		s.results = &results{}
	}
	if of.Proved {
		s.results.add(one)
	} else {
		s.results.count(counted{now, a, 1})
	}
	if of.Previous {
		s.previousAt = now
	}
	switch {
	case a.Status == http.StatusServiceUnavailable:
		s.failed++
		s.fault, s.faultAt = a, now
	case a.Status >= http.StatusBadRequest:
		s.refused++
		s.fault, s.faultAt = a, now
	case of.Proved: // else it is a ping without a signature
		s.accept(one)
	}
}

// accept counts an accepted webhook. The caller has the lock.
func (s *Stats) accept(one single) {
	if one.fault != "" {
		s.fault, s.faultAt = &answer.Answer{Result: "filter", Reason: one.fault}, one.at
	}
	if s.last == nil {
		s.last = &single{}
	}
	if !s.last.at.After(one.at) {
		*s.last = one
		s.last.targets = nil // its results show them
	}
	if one.answer.Ping {
		return
	}
	s.accepted++
	if one.answer.Duplicate {
		s.duplicate++
	}
	if one.answer.Folded {
		s.folded++
	}
}

// take returns the results since the last call, nil for none. The caller restores results that could not be recorded.
func (s *Stats) take() *results {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.results
	s.results = nil
	return r
}

// restore puts back results that could not be recorded.
func (s *Stats) restore(r *results) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.results != nil {
		r.join(s.results)
	}
	s.results = r
}

// pending reports whether there are results since the last take, and whether one is by a sender that knows the token.
func (s *Stats) pending() (news, proved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results != nil, s.results != nil && len(s.results.single) > 0
}

// Read returns the counts.
func (s *Stats) Read() Deliveries {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Deliveries{
		UID: s.UID, Since: s.Since.UTC(), Accepted: s.accepted, Folded: s.folded, Duplicate: s.duplicate, Refused: s.refused, Failed: s.failed,
		PreviousToken: s.previousAt.UTC(),
	}
	if a := s.fault; a != nil {
		d.LastError = Outcome{Time: s.faultAt.UTC(), Result: a.Result, Reason: a.Reason}
	}
	if last := s.last; last != nil {
		d.Last = Outcome{Time: last.at.UTC(), ID: last.shownID(), Result: last.answer.Result}
	}
	return d
}

// faultOf returns the reason why filters failed, in a form that is safe to show. Filters' errors do not quote the webhook.
func faultOf(failed error) string { return printable(failed.Error(), maxFault) }

// printable returns text of at most max bytes, with a question mark for each byte that is not printable ASCII.
func printable(text string, max int) string {
	b := []byte(text[:min(len(text), max)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

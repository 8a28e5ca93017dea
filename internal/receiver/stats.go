package receiver

import (
	"net/http"
	"sync"
	"sync/atomic"
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
	UID                                                  string
	Since                                                time.Time
	accepted, folded, duplicate, refused, failed, others atomic.Int64

	fault   atomic.Pointer[answer.Answer]
	faultAt atomic.Int64 // Unix nanoseconds
	// previousAt is when a previous token last proved a webhook, in Unix nanoseconds; 0 for never.
	previousAt atomic.Int64

	mu sync.Mutex
	// last is the last accepted webhook, nil for none.
	last *lastAccepted
	// results are those since the last take, nil for none.
	results *results
}

// lastAccepted is the last accepted webhook or event of a Receiver.
type lastAccepted struct {
	at     time.Time
	answer *answer.Answer
	id     [maxShownID]byte
	length int
}

// NewStats returns the Stats of the Receiver with this UID, counting from now on.
func NewStats(uid string, now time.Time) *Stats { return &Stats{UID: uid, Since: now} }

// Count counts one answer to a request of the Receiver, or the corresponding answer for an event. The fault of an accepted webhook gets the
// same time as its acceptance.
func (s *Stats) Count(a *answer.Answer, of Received, now time.Time) {
	s.note(a, of, now)
	switch {
	case a.Status == http.StatusServiceUnavailable:
		s.fail(a, now)
		s.failed.Add(1)
	case a.Status >= http.StatusBadRequest:
		s.fail(a, now)
		s.refused.Add(1)
	default:
		if of.Fault != "" {
			s.fail(&answer.Answer{Result: "filter", Reason: of.Fault}, now)
		}
		s.accept(a, of.ID, now)
	}
}

// note keeps the result of a webhook until take. It is called before the webhook is counted, so that a report with the count has the result
// too.
func (s *Stats) note(a *answer.Answer, of Received, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.results == nil {
		s.results = &results{}
	}
	if !of.Proved {
		s.results.count(counted{now, a, 1})
		return
	}
	one := single{at: now, answer: a, targets: of.Targets, fault: of.Fault}
	one.length = copy(one.id[:], of.ID)
	s.results.add(one)
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

func (s *Stats) accept(a *answer.Answer, id string, now time.Time) {
	s.mu.Lock()
	if s.last == nil {
		s.last = &lastAccepted{} // with the first one: most Receivers wait long for it
	}
	if !s.last.at.After(now) {
		s.last.at, s.last.answer = now, a
		s.last.length = copy(s.last.id[:], id)
	}
	s.mu.Unlock()
	if a.Ping {
		s.others.Add(1)
		return
	}
	if a.Duplicate {
		s.duplicate.Add(1)
	}
	if a.Folded {
		s.folded.Add(1)
	}
	s.accepted.Add(1)
}

func (s *Stats) fail(a *answer.Answer, now time.Time) {
	s.faultAt.Store(now.UnixNano())
	s.fault.Store(a)
}

// proved notes that a webhook was authentic, for any answer. It is called before that answer is counted.
func (s *Stats) proved(h *Hook, now time.Time) {
	if h.Previous {
		s.previousAt.Store(now.UnixNano())
	}
}

// faultOf returns the reason why filters failed, in a form that is safe to show. Filters' errors do not quote the webhook.
func faultOf(failed error) string { return printable(failed.Error(), maxFault) }

// version changes with every count. Counts are made last, so that the data of a new version is already there to be read.
func (s *Stats) version() int64 {
	return s.accepted.Load() + s.refused.Load() + s.failed.Load() + s.others.Load()
}

// authentic changes with every count that a sender with the token caused, and with no other.
func (s *Stats) authentic() int64 { return s.accepted.Load() + s.others.Load() }

// Read returns the counts.
func (s *Stats) Read() Deliveries {
	d := Deliveries{
		UID: s.UID, Since: s.Since.UTC(), Accepted: s.accepted.Load(), Folded: s.folded.Load(), Duplicate: s.duplicate.Load(),
		Refused: s.refused.Load(), Failed: s.failed.Load(),
	}
	if a := s.fault.Load(); a != nil {
		d.LastError = Outcome{Time: time.Unix(0, s.faultAt.Load()).UTC(), Result: a.Result, Reason: a.Reason}
	}
	if at := s.previousAt.Load(); at != 0 {
		d.PreviousToken = time.Unix(0, at).UTC()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.last; last != nil {
		d.Last = Outcome{Time: last.at.UTC(), Result: last.answer.Result, ID: printable(string(last.id[:last.length]), maxShownID)}
	}
	return d
}

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

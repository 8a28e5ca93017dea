package receiver

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/receiver/answer"
)

// maxShownID bounds in bytes a delivery's ID in a status.
const maxShownID = 128

// maxFault bounds in bytes the text of a failed filter in a status.
const maxFault = 512

// Deliveries is what came in for one Receiver on one replica since Since, webhooks or events. Nothing in it is secret.
type Deliveries struct {
	// UID is the Receiver's, so that what is told of a deleted one is not shown on its successor.
	UID       string    `json:"uid"`
	Since     time.Time `json:"since"`
	Accepted  int64     `json:"accepted,omitempty"`
	Folded    int64     `json:"folded,omitempty"`
	Duplicate int64     `json:"duplicate,omitempty"`
	Refused   int64     `json:"refused,omitempty"`
	Failed    int64     `json:"failed,omitempty"`
	Last      Outcome   `json:"last,omitzero"`
	LastError Outcome   `json:"lastError,omitzero"`
	// PreviousToken is when the last authentic webhook came over the path of a previous token.
	PreviousToken time.Time `json:"previousToken,omitzero"`
}

// Outcome is one webhook or event and what became of it; the zero value is none.
type Outcome struct {
	Time time.Time `json:"time"`
	// ID is the sender's, of an accepted webhook only, in printable ASCII.
	ID     string `json:"id,omitempty"`
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
}

// ledger is what is remembered of one Receiver, as long as it is the same object. It outlives the Receiver's hooks.
type ledger struct {
	tally *Tally
	seen  redeliveries
}

func newLedger(uid string, now time.Time) *ledger { return &ledger{tally: NewTally(uid, now)} }

// Tally counts what came in for one Receiver, as long as it is the same object. Counting takes a lock that nobody holds for longer than
// it takes to copy an ID. It allocates for the first few webhooks after a report, and for no others.
type Tally struct {
	UID                                                  string
	Since                                                time.Time
	accepted, folded, duplicate, refused, failed, others atomic.Int64

	fault   atomic.Pointer[answer.Answer]
	faultAt atomic.Int64 // Unix nanoseconds
	// previousAt is when a previous token last proved a webhook, in Unix nanoseconds; 0 for never.
	previousAt atomic.Int64

	mu   sync.Mutex
	last struct {
		at     time.Time
		answer *answer.Answer
		id     [maxShownID]byte
		length int
	}
	// results are what take has not returned yet, nil for nothing.
	results *results
}

// NewTally counts for the Receiver with this UID from now on.
func NewTally(uid string, now time.Time) *Tally { return &Tally{UID: uid, Since: now} }

// Count counts one answer to a request of the Receiver, or what would have been the answer to an event.
func (t *Tally) Count(a *answer.Answer, of Received, now time.Time) {
	t.note(a, of, now)
	switch {
	case a.Status == http.StatusServiceUnavailable:
		t.fail(a, now)
		t.failed.Add(1)
	case a.Status >= http.StatusBadRequest:
		t.fail(a, now)
		t.refused.Add(1)
	default:
		t.accept(a, of.ID, now)
	}
}

// note keeps what became of a webhook until take. It is called before the webhook is counted, so that a report that has the count has this.
func (t *Tally) note(a *answer.Answer, of Received, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.results == nil {
		t.results = &results{}
	}
	if !of.Proved {
		t.results.fold(folded{now, a, 1})
		return
	}
	s := single{at: now, answer: a, targets: of.Targets, fault: of.Fault}
	s.length = copy(s.id[:], of.ID)
	t.results.add(s)
}

// take returns what came in since it was last called, nil for nothing. What could not be told is given back to restore.
func (t *Tally) take() *results {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.results
	t.results = nil
	return r
}

// restore takes back what could not be told.
func (t *Tally) restore(r *results) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.results != nil {
		r.join(t.results)
	}
	t.results = r
}

func (t *Tally) accept(a *answer.Answer, id string, now time.Time) {
	t.mu.Lock()
	if t.last.at.Before(now) {
		t.last.at, t.last.answer = now, a
		t.last.length = copy(t.last.id[:], id)
	}
	t.mu.Unlock()
	if a.Ping {
		t.others.Add(1)
		return
	}
	if a.Duplicate {
		t.duplicate.Add(1)
	}
	if a.Folded {
		t.folded.Add(1)
	}
	t.accepted.Add(1)
}

func (t *Tally) fail(a *answer.Answer, now time.Time) {
	t.faultAt.Store(now.UnixNano())
	t.fault.Store(a)
}

// proved notes that a webhook was authentic, whatever is answered. It is called before that answer is counted.
func (t *Tally) proved(h *Hook, now time.Time) {
	if h.Previous {
		t.previousAt.Store(now.UnixNano())
	}
}

// filtered notes that filters failed for an authentic webhook, and returns why in a form that is safe to show. Filters say it without
// quoting the webhook.
func (t *Tally) filtered(failed error, now time.Time) (why string) {
	why = printable(failed.Error(), maxFault)
	t.fail(&answer.Answer{Result: "filter", Reason: why}, now)
	t.others.Add(1)
	return why
}

// version changes with everything that is counted. Counts are made last, so that what one tells of is there to be read.
func (t *Tally) version() int64 {
	return t.accepted.Load() + t.refused.Load() + t.failed.Load() + t.others.Load()
}

// authentic changes with what is counted of senders who know the token, and with nothing that others can cause.
func (t *Tally) authentic() int64 { return t.accepted.Load() + t.others.Load() }

// Read returns what was counted.
func (t *Tally) Read() Deliveries {
	d := Deliveries{
		UID: t.UID, Since: t.Since.UTC(), Accepted: t.accepted.Load(), Folded: t.folded.Load(), Duplicate: t.duplicate.Load(),
		Refused: t.refused.Load(), Failed: t.failed.Load(),
	}
	if a := t.fault.Load(); a != nil {
		d.LastError = Outcome{Time: time.Unix(0, t.faultAt.Load()).UTC(), Result: a.Result, Reason: a.Reason}
	}
	if at := t.previousAt.Load(); at != 0 {
		d.PreviousToken = time.Unix(0, at).UTC()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.last.answer; a != nil {
		d.Last = Outcome{Time: t.last.at.UTC(), Result: a.Result, ID: printable(string(t.last.id[:t.last.length]), maxShownID)}
	}
	return d
}

// printable is text of at most max bytes with a question mark for all that is not printable ASCII.
func printable(text string, max int) string {
	b := []byte(text[:min(len(text), max)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

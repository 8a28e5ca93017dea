package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

const (
	// historyTail is how much of HISTORY, before its newest record, is read when a term begins. A sent delivery is acknowledged, or taken off
	// the schedule, right after its record. So a delivery that is handed out again after the end of a worker was recorded in the worker's last
	// moments. The rest of the time is for a worker that could not acknowledge for a while, and for clocks that differ.
	historyTail = 15 * time.Minute
	// maxSentIDs is how many of the deliveries sent last are kept, four fifths of them at least: 40 bytes each at most.
	maxSentIDs = 200_000
	// maxRecords bounds the records of one message, in bytes, on a server that takes so large a message.
	maxRecords = 128 << 10
	// recordPause is how long records wait, after the records before them, for others of their Provider: a message of one record costs as much
	// as the delivery itself. After a crash meanwhile their deliveries are sent once more (invariant E3). One object's deliveries are as far
	// apart, so the pause is no longer than a send takes.
	recordPause = 5 * time.Millisecond
)

// history records the deliveries that were sent and recognizes them. HISTORY has one message for the deliveries that were sent to one
// Provider while the message before it was being written, and for recordPause after that. It has a line of JSON for each record. It is not
// synced: after a loss of power the last deliveries may be sent twice.
type history struct {
	bus    *Bus
	rounds *committer
	// together bounds the records of one message, in bytes.
	together int

	mu   sync.Mutex
	sent recentIDs[struct{}]

	loading sync.Mutex
	read    uint64    // of HISTORY this sequence and those before it are in sent, as far as they matter
	newest  time.Time // when the last of these was stored
	at      time.Time
}

func newHistory(b *Bus) *history {
	h := &history{bus: b, together: maxRecords, sent: recentIDs[struct{}]{most: maxSentIDs}}
	h.rounds = newCommitter(b, func(ctx context.Context, msgs []*nats.Msg) []outcome { return b.publishAll(ctx, streamHistory, msgs) })
	h.rounds.pause = recordPause
	return h
}

// Sent records that d was sent, and returns when the server has the record, or with an error within publishTimeout, also when ctx ends: a
// record that was given up and made again would be written twice. The caller acknowledges d after that. So a delivery that is
// handed out again after a crash is recognized as sent, unless the crash fell between the destination's answer and the record.
func (b *Bus) Sent(ctx context.Context, d *event.Delivery) error {
	r := sent{ID: d.ID, Replays: d.Replays}
	if !b.opts.NoHistory {
		r = sentRecord(d, time.Now().UTC())
	}
	e, err := encode(&r)
	if err != nil {
		return fmt.Errorf("record sent delivery: %w", err)
	}
	subject := historySubject(d)
	together := func(waiting *entry) bool {
		if len(waiting.msg.Data)+len(e.line()) > b.history.together {
			return false
		}
		waiting.msg.Data = append(waiting.msg.Data, e.line()...)
		return true
	}
	if _, err := b.history.rounds.commit(context.WithoutCancel(ctx), entry{
		msg: &nats.Msg{Subject: subject, Data: e.line()}, namespace: d.Namespace, coalesce: together,
	}); err != nil {
		return fmt.Errorf("record sent delivery: %w", err) // the record stays in use: the client may still be sending it
	}
	e.release()
	b.history.add(subject, d.ID, d.Replays)
	return nil
}

// WasSent reports whether Sent has recorded d, by this process or by an earlier worker shortly before its end. Any count of its replays
// matches, but for a delivery that was replayed after it was sent (event.Delivery.Again) only the count that it has.
func (b *Bus) WasSent(ctx context.Context, d *event.Delivery) (bool, error) {
	h := b.history
	h.loading.Lock()
	loaded := !h.at.IsZero()
	h.loading.Unlock()
	if !loaded {
		if err := h.load(ctx); err != nil {
			return false, err
		}
	}
	id := d.ID
	if d.Again {
		id = d.Run()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, found := h.sent.find(sentID(historySubject(d), id))
	return found, nil
}

func (h *history) add(subject, id string, replays int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent.add(time.Time{}, sentID(subject, id), struct{}{})
	if replays > 0 {
		h.sent.add(time.Time{}, sentID(subject, event.RunOf(id, replays)), struct{}{})
	}
}

// load reads the records of other workers. It must be called when a term begins, before anything is sent.
func (h *history) load(ctx context.Context) error {
	h.loading.Lock()
	defer h.loading.Unlock()
	began := time.Now()
	stream := h.bus.stream(streamHistory)
	infoCtx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := stream.Info(infoCtx)
	next := h.read + 1
	if err == nil && h.read > 0 {
		next, err = stream.Resume(infoCtx, next, h.newest.Add(1))
	}
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	last := info.State.LastSeq
	if info.State.Msgs > 0 && last >= next {
		if began.Sub(h.at) >= historyTail {
			next = 0
		}
		if err := h.readUntil(ctx, next, info.State.LastTime.Add(-historyTail), last); err != nil {
			return fmt.Errorf("read history: %w", err)
		}
	}
	h.read, h.newest, h.at = last, info.State.LastTime, began
	return nil
}

// readUntil reads the records of HISTORY from a sequence, or from a time if that is zero, up to a sequence that was the last one.
func (h *history) readUntil(ctx context.Context, next uint64, since time.Time, last uint64) error {
	msgs, err := h.bus.readFrom(ctx, h.bus.stream(streamHistory), next, since, false)
	if err != nil {
		return err
	}
	defer msgs.Stop()
	for msgs.left > 0 { // none if the records were removed by hand
		m, meta, err := msgs.next(ctx)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		for _, r := range decodeLines[sentRun](m.Data()) {
			h.add(m.Subject(), r.ID, r.Replays)
		}
		if meta.Sequence.Stream >= last {
			break
		}
	}
	return nil
}

// sentRun is the part of a record that identifies the sent delivery.
type sentRun struct {
	ID      string `json:"id"`
	Replays int    `json:"replays"`
}

// sentID identifies a delivery by the subject of its Provider in HISTORY and its ID.
func sentID(subject, id string) uint64 { return digest(subject + " " + id) }

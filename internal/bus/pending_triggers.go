package bus

import (
	"context"
	"maps"
	"strings"
	"sync"

	"notifier/internal/event"
)

// pendingTriggers has the triggers that are on disk and wait in this process for their turn. A webhook for the same target needs no write
// of its own. The request that the waiting trigger leads to is stamped when it is made, so it is late enough for both (invariant T4). After
// a crash the waiting trigger is handed out again.
//
// It works only for the embedded server, whose one client this process is. With several replicas another one might be the worker by now,
// and have made the request already. It has one entry for each trigger that the stage has in hand.
type pendingTriggers struct {
	mu      sync.Mutex
	waiting map[string]*pendingTrigger // by subject
	// synced is the sequence up to which TRIGGERS is known to be on disk. The server hands a trigger out as soon as it is stored, which is
	// before the sync of its publish.
	synced uint64
}

func newPendingTriggers() *pendingTriggers {
	return &pendingTriggers{waiting: map[string]*pendingTrigger{}}
}

// covers reports whether a trigger of the subject, of the same Receiver, is on disk and not yet begun. Another Receiver's does not count:
// if that Receiver were deleted, this one's webhook would be lost with its trigger.
func (s *pendingTriggers) covers(subject []byte, receiverUID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.waiting[string(subject)]
	return in != nil && in.receiverUID == receiverUID && in.seq <= s.synced
}

// stored records the end of a sync that began when the stream had the sequence: it covered all messages before that as well.
func (s *pendingTriggers) stored(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = max(s.synced, seq)
}

// add records a trigger that is offered to the stage as waiting, until the stage takes, acknowledges or returns it.
func (s *pendingTriggers) add(subject string, m *event.Message[event.Trigger]) {
	in := &pendingTrigger{Acker: m.Acker, table: s, seq: m.Seq, subject: subject, receiverUID: m.Value.ReceiverUID}
	m.Acker = in
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[in.subject] = in
}

// remove has the trigger of a subject, if there is one, cover no others from now on.
func (s *pendingTriggers) remove(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, subject)
}

// drop removes the triggers of a shard, when its consumer is given up.
func (s *pendingTriggers) drop(shard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := strings.TrimSuffix(triggerRole(shard).filter, everythingElse)
	maps.DeleteFunc(s.waiting, func(subject string, _ *pendingTrigger) bool { return strings.HasPrefix(subject, prefix) })
}

// pendingTrigger is a trigger in hand that covers later ones until it is taken or acknowledged.
type pendingTrigger struct {
	event.Acker
	table                *pendingTriggers
	seq                  uint64 // in TRIGGERS
	subject, receiverUID string
}

// Take implements event.Taker.
func (i *pendingTrigger) Take() {
	i.table.mu.Lock()
	defer i.table.mu.Unlock()
	if i.table.waiting[i.subject] == i {
		delete(i.table.waiting, i.subject)
	}
}

// Ack implements event.Acker.
func (i *pendingTrigger) Ack(ctx context.Context) error {
	i.Take()
	return i.Acker.Ack(ctx)
}

// Nak implements event.Acker.
func (i *pendingTrigger) Nak() error {
	i.Take()
	return i.Acker.Nak()
}

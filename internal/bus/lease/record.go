package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// record is the entry of the bucket.
type record struct {
	// Holder is the worker, empty when the last one released the lease.
	Holder string `json:"holder,omitempty"`
	Term   uint64 `json:"term"`
	// Early says that the entry was missing, and the term of a former worker may last: the holder waits for its end.
	Early bool `json:"early,omitempty"`

	revision uint64
}

// record returns the entry of the term with its present holder.
func (t *term) record(holder string) record {
	return record{Holder: holder, Term: t.number, Early: t.early.Load(), revision: t.revision}
}

func (l *Lease) read(ctx context.Context) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	e, err := l.opts.Bucket.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.noteAnswer()
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read lease: %w", err)
	}
	l.noteAnswer()
	var r record
	if json.Unmarshal(e.Value(), &r) != nil {
		r = record{} // an entry that cannot be read counts as free
	}
	r.revision = e.Revision()
	return r, nil
}

// write replaces the entry if its revision is r's.
func (l *Lease) write(ctx context.Context, r record) (uint64, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encode lease: %w", err)
	}
	revision, err := l.opts.Bucket.Update(ctx, key, body, r.revision)
	if err != nil {
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			l.refused.CompareAndSwap(0, time.Now().UnixNano())
		}
		return 0, fmt.Errorf("write lease: %w", err)
	}
	l.refused.Store(0)
	l.noteAnswer()
	return revision, nil
}

func (l *Lease) noteAnswer() { l.answered.Store(time.Now().UnixNano()) }

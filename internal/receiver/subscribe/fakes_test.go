package subscribe

import (
	"context"
	"encoding/json"
	"maps"
	"sync"

	"notifier/internal/receiver"
	"notifier/internal/receiver/receivertest"
)

var elapse = receivertest.Elapse

// reports are the reports that were put, by key.
type reports map[string]receiver.Deliveries

func (r reports) Put(_ context.Context, key string, value []byte) error {
	var d receiver.Deliveries
	err := json.Unmarshal(value, &d)
	r[key] = d
	return err
}

// followed is a bucket of reports, which one Watch may follow.
type followed struct {
	stored  sync.Mutex
	reports map[string]string
	changes []change
	changed chan struct{}
}

// change is a report that was put, nil when it was removed.
type change struct {
	key   string
	value []byte
}

func newFollowed() *followed {
	return &followed{reports: map[string]string{}, changed: make(chan struct{}, 1)}
}

// store replaces a report; nil removes it.
func (f *followed) store(key string, value []byte) {
	f.stored.Lock()
	defer f.stored.Unlock()
	if value == nil {
		delete(f.reports, key)
	} else {
		f.reports[key] = string(value)
	}
	f.changes = append(f.changes, change{key, value})
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *followed) get(key string) (value string, known bool) {
	f.stored.Lock()
	defer f.stored.Unlock()
	value, known = f.reports[key]
	return value, known
}

func (f *followed) all() map[string]string {
	f.stored.Lock()
	defer f.stored.Unlock()
	return maps.Clone(f.reports)
}

func (f *followed) All(_ context.Context, each func(string, []byte)) error {
	for key, value := range f.all() {
		each(key, []byte(value))
	}
	return nil
}

func (f *followed) Watch(ctx context.Context, each func(string, []byte)) error {
	seen := 0
	for ctx.Err() == nil {
		f.stored.Lock()
		later := f.changes[seen:]
		f.stored.Unlock()
		for _, c := range later {
			each(c.key, c.value)
		}
		if seen += len(later); len(later) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-f.changed:
		}
	}
	return nil
}

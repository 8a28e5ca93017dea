package events

import (
	"context"
	"slices"
	"sync"

	"notifier/internal/event"
	"notifier/internal/receiver/receivertest"
)

var (
	do     = receivertest.Do
	bodyOf = receivertest.BodyOf
)

// eventLog is a bus for events that remembers IDs as the stream does.
type eventLog struct {
	mu      sync.Mutex
	err     error
	records []*event.Record
	seen    map[string]bool
}

func (l *eventLog) PublishEvent(_ context.Context, r *event.Record) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false, l.err
	}
	if l.seen[r.ID] {
		return true, nil
	}
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[r.ID] = true
	l.records = append(l.records, r)
	return false, nil
}

func (l *eventLog) LastEvent(_ context.Context, namespace, kind, name string) (*event.Record, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range slices.Backward(l.records) {
		if o := r.Event.InvolvedObject; o.Namespace == namespace && o.Kind == kind && o.Name == name {
			return r, true, nil
		}
	}
	return nil, false, nil
}

// cache stands for a watchers' cache of one Kustomization.
type cache struct{}

// Pending is true of Buckets.
func (cache) Pending(kind string) bool { return kind == "Bucket" }

func (cache) Lookup(kind, namespace, name string) (event.Object, bool) {
	if kind == "Kustomization" && namespace == "team-a" && name == "app" {
		return event.Object{UID: "uid-1", Labels: map[string]string{"team": "a"}}, true
	}
	return event.Object{}, false
}

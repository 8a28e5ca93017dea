package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"notifier/internal/event"
)

// fakeBus makes its replica the worker, in term after term until ctx ends.
type fakeBus struct {
	in chan event.Message[event.Trigger]
	mu sync.Mutex
	// end ends the current term and returns when it is over.
	end func()
}

func (b *fakeBus) Triggers(ctx context.Context, serve func(context.Context, <-chan event.Message[event.Trigger]) error) error {
	for ctx.Err() == nil {
		term, cancel := context.WithCancel(ctx)
		over := make(chan struct{})
		b.mu.Lock()
		b.end = func() { cancel(); <-over }
		b.mu.Unlock()
		err := serve(term, b.in)
		cancel()
		close(over)
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (b *fakeBus) endTerm() {
	b.mu.Lock()
	end := b.end
	b.mu.Unlock()
	end()
}

type fakeReceivers struct {
	mu sync.Mutex
	// live has the Receivers of each namespace, the oldest first.
	live    map[string][]Receiver
	changed func(namespace, name string)
	// uncompiled is the UID of a Receiver that waits to be compiled, empty for none.
	uncompiled string
}

// wait has the Receiver of a UID wait to be compiled.
func (f *fakeReceivers) wait(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uncompiled = uid
}

func (f *fakeReceivers) put(r Receiver) {
	f.mu.Lock()
	if f.live == nil {
		f.live = map[string][]Receiver{}
	}
	if i := f.index(r.Namespace, r.Name); i >= 0 {
		f.live[r.Namespace] = slices.Delete(f.live[r.Namespace], i, i+1)
	}
	f.live[r.Namespace] = append(f.live[r.Namespace], r.Indexed())
	changed := f.changed
	f.mu.Unlock()
	if changed != nil {
		changed(r.Namespace, r.Name)
	}
}

func (f *fakeReceivers) Follow(changed func(namespace, name string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = changed
}

func (f *fakeReceivers) Namespaces() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.live))
}

func (f *fakeReceivers) remove(namespace, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.index(namespace, name); i >= 0 {
		f.live[namespace] = slices.Delete(f.live[namespace], i, i+1)
	}
	if len(f.live[namespace]) == 0 {
		delete(f.live, namespace)
	}
}

func (f *fakeReceivers) Live(namespace, name string) (Receiver, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.index(namespace, name); i >= 0 {
		return f.live[namespace][i], true
	}
	return Receiver{}, false
}

func (f *fakeReceivers) Uncompiled(_, _, uid string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return uid != "" && uid == f.uncompiled
}

func (f *fakeReceivers) InNamespace(namespace string) []Receiver {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.live[namespace])
}

// index returns the place of a Receiver in its namespace, -1 if there is none. It reads the names where they are: the race detector looks at
// each byte of a copy.
func (f *fakeReceivers) index(namespace, name string) int {
	all := f.live[namespace]
	for i := range all {
		if all[i].Name == name {
			return i
		}
	}
	return -1
}

// fakeSelector maps the canonical form of selectors to names. Kinds other than GitRepository are not watched.
type fakeSelector map[string][]string

func (f fakeSelector) Select(_ string, target event.Target) ([]string, bool) {
	if target.Kind != "GitRepository" {
		return nil, false
	}
	return f[target.Selector()], true
}

func (f fakeSelector) Pending(string) bool { return false }

func (f fakeSelector) Selects(namespace string, target event.Target, name string) (selected, watched bool) {
	names, watched := f.Select(namespace, target)
	return slices.Contains(names, name), watched
}

// switched is a Selector whose kinds may not be watched.
type switched struct {
	fakeSelector
	off atomic.Bool
	// pending reports that they will be.
	pending atomic.Bool
}

func (s *switched) Pending(string) bool { return s.pending.Load() }

func (s *switched) Select(namespace string, target event.Target) ([]string, bool) {
	names, watched := s.fakeSelector.Select(namespace, target)
	return names, watched && !s.off.Load()
}

func (s *switched) Selects(namespace string, target event.Target, name string) (selected, watched bool) {
	names, watched := s.Select(namespace, target)
	return watched && slices.Contains(names, name), watched
}

// fakeReports keeps the last report of each key and counts them.
type fakeReports struct {
	mu     sync.Mutex
	values map[string][]byte
	puts   int
	fail   bool
}

func (f *fakeReports) Put(_ context.Context, key string, value []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.puts++
	if f.fail {
		return fmt.Errorf("the bus is away")
	}
	f.values[key] = value
	return nil
}

func (f *fakeReports) Watch(ctx context.Context, h func(string, []byte)) error {
	f.mu.Lock()
	values := maps.Clone(f.values)
	f.mu.Unlock()
	for k, v := range values {
		h(k, v)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeReports) get(key string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[key]
}

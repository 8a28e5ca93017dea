package env

import (
	"bytes"
	"context"
	"sync"
)

// outputLimit bounds the kept output of a child; the older half is dropped first.
const outputLimit = 32 << 20

// output collects a child's output.
type output struct {
	mu      sync.Mutex
	data    []byte
	dropped int           // bytes that were before data
	changed chan struct{} // closed and replaced at every write
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = append(o.data, p...)
	if len(o.data) > outputLimit {
		cut := len(o.data) - outputLimit/2
		o.data = append([]byte(nil), o.data[cut:]...)
		o.dropped += cut
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.data)
}

// wait returns the first whole line that match accepts.
func (o *output) wait(ctx context.Context, match func(string) bool) (string, error) {
	next := 0 // position in everything ever written
	for {
		o.mu.Lock()
		rest := o.data[min(max(0, next-o.dropped), len(o.data)):]
		next = max(next, o.dropped)
		changed := o.changed
		o.mu.Unlock()

		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			next += len(line) + 1
			if match(string(line)) {
				return string(line), nil
			}
			rest = after
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/fair"
)

// backlogWait is how long a publisher waits before it is refused. A namespace whose records are handled as fast as others' is served.
const backlogWait = 250 * time.Millisecond

const (
	// subjectBacklogged is the subject on which the worker publishes the backlogged namespaces.
	subjectBacklogged = "notifier.backlogged"
	// backloggedPause is the least time between two of these messages, backloggedInterval the time after which one is repeated, for a replica
	// that has missed it. After backloggedLife without a message the namespaces are forgotten: the worker may have ended.
	backloggedPause    = 10 * time.Millisecond
	backloggedInterval = time.Second
	backloggedLife     = 3 * backloggedInterval
)

// backlogged has the namespaces whose backlog, the records of EVENTS that wait to be handled by the worker, has reached its share. Their
// publishers are refused, so that a namespace whose events come faster than they are routed delays only itself (invariant T6). The worker
// finds them and publishes them to the other replicas.
type backlogged struct {
	mu sync.Mutex
	// own are the namespaces that this process found as the worker, followed those that another worker published.
	own, followed map[string]struct{}
	forget        *time.Timer // forgets followed
	// ends has a channel for each of both, which is closed when the namespace is no longer backlogged.
	ends    map[string]chan struct{}
	changed chan struct{} // has a value when own has changed since it was last read
}

func newBacklogged() *backlogged {
	return &backlogged{own: map[string]struct{}{}, ends: map[string]chan struct{}{}, changed: make(chan struct{}, 1)}
}

// set adds a namespace to the own ones, or takes it away.
func (s *backlogged) set(namespace string, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full {
		s.own[namespace] = struct{}{}
	} else {
		delete(s.own, namespace)
	}
	s.update(namespace)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// follow replaces the namespaces that another worker published, for backloggedLife.
func (s *backlogged) follow(namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := s.followed
	s.followed = make(map[string]struct{}, len(namespaces))
	for _, n := range namespaces {
		s.followed[n] = struct{}{}
		s.update(n)
	}
	for n := range former {
		s.update(n)
	}
	if s.forget != nil {
		s.forget.Stop()
	}
	if len(namespaces) > 0 {
		s.forget = time.AfterFunc(backloggedLife, func() { s.follow(nil) })
	}
}

// update brings ends in step with own and followed for one namespace. The caller holds the lock.
func (s *backlogged) update(namespace string) {
	_, own := s.own[namespace]
	_, followed := s.followed[namespace]
	end, full := s.ends[namespace]
	switch {
	case (own || followed) && !full:
		s.ends[namespace] = make(chan struct{})
	case full && !own && !followed:
		close(end)
		delete(s.ends, namespace)
	}
}

// await returns nil once the namespace is not backlogged, or ErrFull after backlogWait, or the error of ctx.
func (s *backlogged) await(ctx context.Context, namespace string) error {
	s.mu.Lock()
	end, full := s.ends[namespace]
	s.mu.Unlock()
	if !full {
		return nil
	}
	timer := time.NewTimer(backlogWait)
	defer timer.Stop()
	select {
	case <-end:
		return nil
	case <-timer.C:
		return fmt.Errorf("too many events of the namespace wait to be routed: %w", ErrFull)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// names returns the namespaces that this process found.
func (s *backlogged) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.own))
}

// backloggedMessage is the body of a message on subjectBacklogged.
type backloggedMessage struct {
	From       string   `json:"from"`
	Namespaces []string `json:"namespaces"`
}

// publishBacklogged publishes the backlogged namespaces to the other replicas until ctx ends, and then that there are none: at each change, and
// every backloggedInterval while there are any. The next message makes up for a lost one.
func (b *Bus) publishBacklogged(ctx context.Context) {
	if b.embedded != nil {
		return // there are no others
	}
	tick := time.NewTicker(backloggedInterval)
	defer tick.Stop()
	for told := 0; ctx.Err() == nil || told > 0; _ = fair.Sleep(ctx, backloggedPause) {
		var names []string
		select {
		case <-b.backlogged.changed:
			names = b.backlogged.names()
		case <-tick.C:
			names = b.backlogged.names()
		case <-ctx.Done():
		}
		if told+len(names) == 0 {
			continue
		}
		told = len(names)
		body, _ := json.Marshal(backloggedMessage{From: b.opts.ReplicaID, Namespaces: names}) // it always has a form in JSON
		_ = b.nc.Publish(subjectBacklogged, body)
	}
}

// followBacklogged keeps the namespaces that another replica, the worker, publishes, until the connection is closed.
func (b *Bus) followBacklogged() error {
	_, err := b.nc.Subscribe(subjectBacklogged, func(m *nats.Msg) {
		var sent backloggedMessage
		if json.Unmarshal(m.Data, &sent) == nil && sent.From != b.opts.ReplicaID {
			b.backlogged.follow(sent.Namespaces)
		}
	})
	if err != nil {
		return fmt.Errorf("follow backlogged namespaces: %w", err)
	}
	return nil
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// syncedStreams returns the streams of the embedded server of which a publish is on disk when it returns. HISTORY and removals need no
// sync: a delivery that is not known to be sent, or a message that exists again after a loss of power, is a duplicate (invariant E3). After
// a loss of power no process has the lease any more. WEBHOOKS is only read.
func syncedStreams() []string {
	return []string{streamEvents, streamTriggers, streamDeliveries, streamDeadLetters, bucketStream + bucketState}
}

// syncer is the group sync of one stream of the embedded server. While one round is being written, further callers wait for the next one,
// which then serves them all.
type syncer struct {
	files *streamFiles
	work  *sync.WaitGroup
	count prometheus.Counter

	mu      sync.Mutex
	running bool
	next    *syncRound
	failed  error
}

// syncRound is one sync. Its error is set when done is closed.
type syncRound struct {
	done chan struct{}
	err  error
}

// startSyncs syncs the streams as the server found or made them. It is called before this process publishes.
func (b *Bus) startSyncs(ctx context.Context) (err error) {
	if b.syncers, err = newSyncers(b); err != nil {
		return err
	}
	info, err := b.streams[streamTriggers].Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	b.pendingTriggers.stored(info.State.LastSeq)
	return nil
}

// newSyncers syncs every stream of syncedStreams as the server found or made it, and returns the syncers for later publishes.
func newSyncers(b *Bus) (map[string]*syncer, error) {
	if err := syncMetadata(filepath.Join(b.opts.DataDir, serverDir), b.opts.fsync); err != nil {
		return nil, err
	}
	syncers := map[string]*syncer{}
	for _, stream := range syncedStreams() {
		s := &syncer{
			files: newStreamFiles(b.opts.DataDir, stream, b.opts.fsync), work: &b.work, count: b.metrics.syncs.WithLabelValues(stream),
		}
		if err := s.files.sync(); err != nil {
			return nil, fmt.Errorf("sync %s: %w", stream, err)
		}
		syncers[stream] = s
	}
	return syncers, nil
}

// durable returns when everything that the stream acknowledged before the call is on disk, or when ctx ends. A remote server's
// acknowledgements are trusted. After an error the stream is no longer written, and Run returns ErrLost: the system forgets the data that
// it could not write, so a second sync would succeed without it.
func (b *Bus) durable(ctx context.Context, stream string) error {
	if s := b.syncers[stream]; s != nil {
		return s.sync(ctx)
	}
	return nil
}

// sync is durable for one stream.
func (s *syncer) sync(ctx context.Context) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &syncRound{done: make(chan struct{})}
		if !s.running {
			s.running = true
			s.work.Go(s.run)
		}
	}
	r := s.next
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes rounds until no caller waits for one.
func (s *syncer) run() {
	for {
		s.mu.Lock()
		r, err := s.next, s.failed
		s.next = nil
		s.running = r != nil
		s.mu.Unlock()
		if r == nil {
			return
		}
		if err == nil {
			s.count.Inc()
			if err = s.files.sync(); err != nil {
				err = fmt.Errorf("sync: %w", err)
				s.mu.Lock()
				s.failed = err
				s.mu.Unlock()
			}
		}
		r.err = err
		close(r.done)
	}
}

// fault returns the error that ended the syncs of a stream, nil if there is none.
func (s *syncer) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// endSyncs syncs the files for the last time after the server has ended. After it there is nothing to restore.
func (b *Bus) endSyncs() {
	failed := len(b.syncers) == 0
	for stream, s := range b.syncers {
		err := s.fault()
		if err == nil {
			err = s.files.sync()
		}
		s.files.close()
		if err != nil {
			b.log.Error("a stream could not be synced at the end", "stream", stream, "error", err)
			failed = true
		}
	}
	if failed {
		return
	}
	if err := errors.Join(syncMetadata(filepath.Join(b.opts.DataDir, serverDir), b.opts.fsync), clearGuards(b.opts.DataDir)); err != nil {
		b.log.Error("the data directory could not be synced at the end", "error", err)
	}
}

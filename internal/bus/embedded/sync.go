package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

// syncer is the group sync of one stream of the embedded server. While one round is being written, further callers wait for the next one,
// which then serves them all.
type syncer struct {
	files  *streamFiles
	rounds *sync.WaitGroup
	begun  func() (ended func()) // called before each round, and ended after it

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

// newSyncers syncs every stream as the server found or made it, and makes the syncers for later publishes.
func (s *Server) newSyncers(begun func(stream string) (ended func())) error {
	if err := syncMetadata(filepath.Join(s.opts.Dir, serverDir), s.opts.Fsync); err != nil {
		return err
	}
	syncers := map[string]*syncer{}
	for _, stream := range s.opts.Synced {
		of := &syncer{
			files: newStreamFiles(s.opts.Dir, stream, s.opts.Fsync), rounds: &s.rounds, begun: func() func() { return begun(stream) },
		}
		if err := of.files.sync(); err != nil {
			return fmt.Errorf("sync %s: %w", stream, err)
		}
		syncers[stream] = of
	}
	s.syncers = syncers
	return nil
}

// Sync returns when everything that the stream acknowledged before the call is on disk, or when ctx ends. A stream that is not among
// Options.Synced needs no sync. After an error the stream is no longer synced, and Fault returns the error: the system forgets the data that
// it could not write, so a second sync would succeed without it.
func (s *Server) Sync(ctx context.Context, stream string) error {
	if of := s.syncers[stream]; of != nil {
		return of.sync(ctx)
	}
	return nil
}

// sync is Sync for one stream.
func (s *syncer) sync(ctx context.Context) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &syncRound{done: make(chan struct{})}
		if !s.running {
			s.running = true
			s.rounds.Go(s.run)
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
			ended := s.begun()
			err = s.files.sync()
			ended()
			if err != nil {
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
func (s *Server) endSyncs() {
	failed := len(s.syncers) == 0
	for stream, of := range s.syncers {
		err := of.fault()
		if err == nil {
			err = of.files.sync()
		}
		of.files.close()
		if err != nil {
			s.opts.Log.Error("a stream could not be synced at the end", "stream", stream, "error", err)
			failed = true
		}
	}
	if failed {
		return
	}
	if err := errors.Join(syncMetadata(filepath.Join(s.opts.Dir, serverDir), s.opts.Fsync), clearGuards(s.opts.Dir)); err != nil {
		s.opts.Log.Error("the data directory could not be synced at the end", "error", err)
	}
}

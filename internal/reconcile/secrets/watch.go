package secrets

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"notifier/internal/reconcile/kube"
)

// Bounds on the delay before an ended watch is begun again. The delay grows from minWatchPause to maxWatchPause while the watches are
// short.
const (
	minWatchPause = 500 * time.Millisecond
	maxWatchPause = 30 * time.Second
)

// A watch is requested for a random time from this span, so that thousands do not end together.
const minWatchLife, maxWatchLife = 20 * time.Minute, 40 * time.Minute

// watchBeginners is the number of watches that are begun at once. When the API server returns after an outage, thousands of Secrets need
// a watch. Namespaces take turns, so that a namespace of many Secrets does not delay the others, and the API server gets few requests at
// a time.
const watchBeginners = 16

// startGrace is the longest delay of the first watches, so that a start has the API server for itself.
const startGrace = 30 * time.Second

// Run watches the referenced Secrets until ctx ends. It begins when quiet closes, or after startGrace.
func (s *Store) Run(ctx context.Context) {
	if kube.Await(ctx, s.options.Quiet, startGrace) {
		s.watching.Run(ctx)
		s.streams.Wait()
	}
}

// follow enqueues an entry to be watched, once.
func (s *Store) follow(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.queued || e.released {
		return
	}
	e.queued = true
	s.watching.Enqueue(e)
}

// beginWatch begins the watch of an entry. It always returns nil: after a failure it enqueues the entry again itself.
func (s *Store) beginWatch(ctx context.Context, e *entry) error {
	watchCtx, stop := context.WithCancel(ctx)
	if !s.owned(e, stop) {
		stop() // released while it waited
		return nil
	}
	if !s.away.Wait(ctx) || s.watches.Wait(ctx) != nil {
		stop()
		return nil // ctx has ended
	}
	from := s.resumption(e)
	life := minWatchLife + rand.N(maxWatchLife-minWatchLife)
	w, err := s.options.Source.Watch(watchCtx, e.key, from, life)
	if err != nil {
		if watchCtx.Err() == nil { // else it was released, which says nothing about the API server
			s.notBegun(e, err)
		}
		stop()
		return nil
	}
	s.away.Over()
	missable := s.begun(e, from)
	s.streams.Go(func() {
		defer stop()
		began := time.Now()
		err := s.consume(watchCtx, e, w, missable)
		if watchCtx.Err() == nil {
			s.ended(e, time.Since(began), life, err)
		}
	})
	return nil
}

// notBegun enqueues an entry whose watch failed to begin. If the API server is away, the entry waits for it together with all others. If
// the answer was about this Secret, only this entry waits.
func (s *Store) notBegun(e *entry, err error) {
	s.options.Log.Debug("watch of a secret did not begin, trying again", "namespace", e.key.Namespace, "name", e.key.Name, "error", err)
	if kube.IsAway(err) {
		s.away.Begin(err)
		s.watching.Enqueue(e)
		return
	}
	s.rewatch(e, err, 0)
}

// ended enqueues an entry whose watch is over. A watch that ended before its time was broken, perhaps by a restart of the API server,
// which then lacks earlier changes. So the next one begins with the present state.
func (s *Store) ended(e *entry, lasted, life time.Duration, err error) {
	s.mu.Lock()
	if e.ended = time.Now(); lasted < life-time.Second {
		e.resume = ""
	}
	s.mu.Unlock()
	if err != nil {
		s.options.Log.Debug("watch of a secret ended, beginning again", "namespace", e.key.Namespace, "name", e.key.Name, "error", err)
	}
	s.rewatch(e, err, lasted)
}

// rewatch enqueues an entry after its delay, which grows while its watches are short.
func (s *Store) rewatch(e *entry, err error, lasted time.Duration) {
	s.mu.Lock()
	if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
		e.resume = "" // later changes are no longer available, so begin with the present state
	}
	if lasted > maxWatchPause {
		e.pause = 0
	}
	pause := max(e.pause, minWatchPause)
	e.pause = min(2*pause, maxWatchPause)
	s.mu.Unlock()
	s.watching.EnqueueAfter(e, pause/2+rand.N(pause))
}

// owned stores the function that ends an entry's watch. It returns false if the entry was released.
func (s *Store) owned(e *entry, stop context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.released {
		return false
	}
	e.stop = stop
	return true
}

// presentWithin is the time within which a watch that begins with the present state sends it. A Secret that is not sent by then probably
// does not exist, so confirm reads it.
const presentWithin = 5 * time.Second

// consume updates an entry from one watch until the watch is over.
func (s *Store) consume(ctx context.Context, e *entry, w Watch, missable bool) error {
	defer w.Stop()
	s.metrics.watches.Inc()
	defer s.metrics.watches.Dec()
	answered := func() {}
	if missable {
		answered = s.confirm(ctx, e, w)
		defer answered()
	}
	for {
		event, err := w.Next()
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case event.Type != watch.Bookmark:
			answered()
		}
		if err := s.take(ctx, e, event); err != nil {
			return err
		}
	}
}

// confirm reads an entry's Secret unless its watch sends it within presentWithin: a deletion before the watch began is not sent. If the
// read fails, confirm stops the watch. The caller calls answered when the watch sent something, and when it is over.
func (s *Store) confirm(ctx context.Context, e *entry, w Watch) (answered func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(presentWithin, func() {
		defer close(done)
		if s.read(ctx, e) != nil {
			s.resumeFrom(e, "")
			w.Stop()
		}
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-done
		}
	})
}

// present is the version of a watch that begins with the present state.
const present = "0"

// resumable is the time after the end of a watch within which the next one resumes. If the API server was away since, its store may have been
// restored from a backup: it then sends nothing until it has reached the version again.
const resumable = 5 * time.Second

// resumption returns the version to watch from.
func (s *Store) resumption(e *entry) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(e.ended) > resumable {
		return present
	}
	return cmp.Or(e.resume, present)
}

// begun notes that a watch has begun from a version, and reports whether it could miss an earlier deletion.
func (s *Store) begun(e *entry, from string) (missable bool) {
	if from != present {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.begun++
	return e.found
}

func (s *Store) resumeFrom(e *entry, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.resume = version
}

// take stores one event of the watch in the entry. One that is older than what is known has the Secret read: the watch is behind a read, or the
// API server's store was restored from a backup.
func (s *Store) take(ctx context.Context, e *entry, sent watch.Event) error {
	if sent.Type == watch.Error {
		return apierrors.FromObject(sent.Object)
	}
	object, ok := sent.Object.(*corev1.Secret)
	if !ok {
		return errors.New("watch of a secret sent something else")
	}
	s.resumeFrom(e, object.ResourceVersion)
	if sent.Type == watch.Bookmark {
		return nil
	}
	if object.Namespace != e.key.Namespace || object.Name != e.key.Name {
		return nil // from a server that ignores the selector; it is dropped
	}
	older := false
	s.change(func() []User {
		if older = kube.Older(object.ResourceVersion, e.version); older || e.released {
			return nil
		}
		e.changes++ // so that a read that began before does not overwrite it
		if sent.Type != watch.Deleted {
			return s.store(e, object)
		}
		return e.put(content{}, object.ResourceVersion)
	})
	if older {
		return s.read(ctx, e)
	}
	return nil
}

package reconcile

import (
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

// The pause before a Secret whose watch ended is watched again grows from minWatchPause to maxWatchPause while its watches do not last.
const (
	minWatchPause = 500 * time.Millisecond
	maxWatchPause = 30 * time.Second
)

// A watch is asked to end by itself after a time from this span, at random so that thousands do not end together.
const minWatchLife, maxWatchLife = 20 * time.Minute, 40 * time.Minute

// watchBeginners is how many watches are begun at once. When the API server comes back, thousands of Secrets want theirs: this many
// at a time ask for it, by namespaces in turns, so that neither it nor one namespace of many Secrets keeps the others waiting.
const watchBeginners = 16

// startGrace is how long beginning to watch waits for a start, which needs the API server for itself.
const startGrace = 30 * time.Second

// Run follows the Secrets that are held until ctx ends. Where there is a start to wait for, it first does.
func (s *secrets) Run(ctx context.Context) error {
	if !kube.Await(ctx, s.quiet, startGrace) {
		return nil
	}
	defer s.streams.Wait()
	return untilDone(ctx, s.watching.Run(ctx))
}

// follow has an entry watched, once.
func (s *secrets) follow(e *secretEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.queued || e.released {
		return
	}
	e.queued = true
	s.watching.Enqueue(e)
}

// beginWatch begins the watch of an entry. What fails is tried again when the entry is enqueued again, so that it returns no error.
func (s *secrets) beginWatch(ctx context.Context, e *secretEntry) error {
	watchCtx, stop := context.WithCancel(ctx)
	if !s.owned(e, stop) {
		stop() // released while it waited
		return nil
	}
	if !s.away.Wait(ctx) || s.watches.Wait(ctx) != nil {
		stop()
		return nil // ctx has ended
	}
	from, missable := s.resumption(e)
	life := minWatchLife + rand.N(maxWatchLife-minWatchLife)
	w, err := s.source.Watch(watchCtx, e.key, from, life)
	if err != nil {
		stop()
		s.notBegun(e, err)
		return nil
	}
	s.away.Over()
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

// notBegun has an entry wait whose watch could not begin: for the API server, as all others then do, or, if the answer was about this
// Secret, for itself.
func (s *secrets) notBegun(e *secretEntry, err error) {
	s.log.Debug("watch of a secret did not begin, trying again", "namespace", e.key.Namespace, "name", e.key.Name, "error", err)
	if kube.IsAway(err) {
		s.away.Begin(err)
		s.watching.Enqueue(e)
		return
	}
	s.rewatch(e, err, 0)
}

// ended has an entry watched again whose watch is over. One that ended before its time broke, with the API server perhaps, which then
// does not know what came before: so the next begins with the present state.
func (s *secrets) ended(e *secretEntry, lasted, life time.Duration, err error) {
	if lasted < life-time.Second {
		s.resumeFrom(e, "")
	}
	if err != nil {
		s.log.Debug("watch of a secret ended, beginning again", "namespace", e.key.Namespace, "name", e.key.Name, "error", err)
	}
	s.rewatch(e, err, lasted)
}

// rewatch enqueues an entry after its pause, which grows while its watches do not last.
func (s *secrets) rewatch(e *secretEntry, err error, lasted time.Duration) {
	s.mu.Lock()
	if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
		e.resume = "" // what happened since then is not to be had any more, so begin with the present state
	}
	if lasted > maxWatchPause {
		e.pause = 0
	}
	pause := max(e.pause, minWatchPause)
	e.pause = min(2*pause, maxWatchPause)
	s.mu.Unlock()
	s.watching.EnqueueAfter(e, pause/2+rand.N(pause))
}

// owned gives the entry what ends its watch, unless it was released.
func (s *secrets) owned(e *secretEntry, stop context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.released {
		return false
	}
	e.stop = stop
	return true
}

// presentWithin is how soon a watch that begins with the present state tells it. A Secret that it tells nothing of for that long
// does not exist any more, or not yet.
const presentWithin = 5 * time.Second

// consume keeps an entry up to date through one watch.
func (s *secrets) consume(ctx context.Context, e *secretEntry, w SecretWatch, missable bool) error {
	defer w.Stop()
	s.metrics.secretWatches.Inc()
	defer s.metrics.secretWatches.Dec()
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
		if err := s.take(e, event); err != nil {
			return err
		}
	}
}

// confirm reads an entry's Secret unless its watch sends it in time: a deletion before the watch began shows by nothing but the
// silence. The watch ends when that fails. The caller calls answered when the watch sent something, and when it is over.
func (s *secrets) confirm(ctx context.Context, e *secretEntry, w SecretWatch) (answered func()) {
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

// resumption returns from where to watch, and whether a deletion before that could be missed.
func (s *secrets) resumption(e *secretEntry) (from string, missable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.resume != "" {
		return e.resume, false
	}
	return "0", e.found
}

func (s *secrets) resumeFrom(e *secretEntry, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.resume = version
}

// take brings one event of the watch into the entry.
func (s *secrets) take(e *secretEntry, sent watch.Event) error {
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
		return nil // a server that does not know the selector; nothing of it is kept
	}
	if sent.Type == watch.Deleted {
		s.deleted(e, object.ResourceVersion)
		return nil
	}
	s.count(e)
	s.set(e, object)
	return nil
}

// count counts that the watch sent a change, so that a read that began before does not undo it.
func (s *secrets) count(e *secretEntry) {
	s.mu.Lock()
	e.changes++
	s.mu.Unlock()
}

// deleted takes in that the Secret went away at a version.
func (s *secrets) deleted(e *secretEntry, version string) {
	s.mu.Lock()
	if e.released || kube.Older(version, e.version) {
		s.mu.Unlock()
		return
	}
	e.changes++
	users := e.put(secretContent{}, version)
	s.mu.Unlock()
	s.tell(users)
}

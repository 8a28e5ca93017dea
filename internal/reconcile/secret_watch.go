package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"notifier/internal/reconcile/kube"
)

// The pause before a broken watch is begun again grows from minWatchPause to maxWatchPause.
const (
	minWatchPause = 500 * time.Millisecond
	maxWatchPause = 30 * time.Second
)

// A watch is asked to end by itself after a time from this span, at random so that thousands do not end together.
const minWatchLife, maxWatchLife = 20 * time.Minute, 40 * time.Minute

// secretClient is the secretSource over a real client, or client-go's fake.
type secretClient struct{ client typedcorev1.SecretsGetter }

func (c secretClient) Get(ctx context.Context, key kube.Key) (*corev1.Secret, error) {
	return c.client.Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

// Watch needs the verb watch alone: the selector by name makes it a request about one object.
func (c secretClient) Watch(ctx context.Context, key kube.Key, resourceVersion string) (watch.Interface, error) {
	life := int64((minWatchLife + rand.N(maxWatchLife-minWatchLife)) / time.Second)
	return c.client.Secrets(key.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:       fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String(),
		ResourceVersion:     resourceVersion,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &life,
	})
}

// Run follows the Secrets that are held until ctx ends.
func (s *secrets) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		for _, e := range s.takeFresh() {
			watchCtx, stop := context.WithCancel(ctx)
			if !s.owned(e, stop) {
				stop() // released before its watch began
				continue
			}
			wg.Go(func() {
				defer stop()
				s.watch(watchCtx, e)
			})
		}
	}
}

// follow has Run begin to watch an entry, once.
func (s *secrets) follow(e *secretEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.queued || e.released {
		return
	}
	e.queued = true
	s.fresh = append(s.fresh, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *secrets) takeFresh() []*secretEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.fresh
	s.fresh = nil
	return fresh
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

// watch keeps one entry up to date until ctx ends.
func (s *secrets) watch(ctx context.Context, e *secretEntry) {
	pause := minWatchPause
	for {
		began := time.Now()
		err := s.watchOnce(ctx, e)
		if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
			s.resumeFrom(e, "") // what happened since then is not to be had any more, so begin with the present state
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Debug("watch of a secret ended, trying again", "namespace", e.key.Namespace, "name", e.key.Name, "error", err)
		case time.Since(began) > maxWatchPause:
			pause = minWatchPause
		}
		if !kube.Sleep(ctx, pause/2+rand.N(pause)) {
			return
		}
		pause = min(2*pause, maxWatchPause)
	}
}

// presentWithin is how soon a watch that begins with the present state tells it. A Secret that it tells nothing of for that long
// does not exist any more, or not yet.
const presentWithin = 5 * time.Second

// watchOnce follows an entry through one watch request.
func (s *secrets) watchOnce(ctx context.Context, e *secretEntry) error {
	if err := s.watches.Wait(ctx); err != nil {
		return err
	}
	from, missable := s.resumption(e)
	w, err := s.source.Watch(ctx, e.key, from)
	if err != nil {
		return fmt.Errorf("watch secret: %w", err)
	}
	defer w.Stop()
	s.metrics.secretWatches.Inc()
	defer s.metrics.secretWatches.Dec()
	var silence <-chan time.Time
	if missable {
		timer := time.NewTimer(presentWithin)
		defer timer.Stop()
		silence = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-silence:
			// A deletion before the watch began is told by nothing but the silence.
			if err := s.read(ctx, e); err != nil {
				s.resumeFrom(e, "")
				return err
			}
		case told, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			if told.Type != watch.Bookmark {
				silence = nil
			}
			if err := s.take(e, told); err != nil {
				return err
			}
		}
	}
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
func (s *secrets) take(e *secretEntry, told watch.Event) error {
	if told.Type == watch.Error {
		return apierrors.FromObject(told.Object)
	}
	object, ok := told.Object.(*corev1.Secret)
	if !ok {
		return errors.New("watch of a secret told of something else")
	}
	s.resumeFrom(e, object.ResourceVersion)
	if told.Type == watch.Bookmark {
		return nil
	}
	if object.Namespace != e.key.Namespace || object.Name != e.key.Name {
		return nil // a server that does not know the selector; nothing of it is kept
	}
	if told.Type == watch.Deleted {
		s.deleted(e, object.ResourceVersion)
		return nil
	}
	s.count(e)
	s.set(e, object)
	return nil
}

// count notes that the watch told of a change, so that a read that began before does not undo it.
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
	users := e.put(false, nil, version)
	s.mu.Unlock()
	s.tell(users)
}

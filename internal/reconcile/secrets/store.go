package secrets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"notifier/internal/reconcile/kube"
)

// readTimeout bounds one read of a Secret.
const readTimeout = 10 * time.Second

// User is an object that refers to Secrets. They are in its own namespace by construction.
type User struct {
	Kind string
	Key  kube.Key
}

// Options configure a Store; all are required.
type Options struct {
	Source Source
	// QPS bounds the reads a second, with bursts of ten times as many: a start reads all Secrets and is to take seconds. Starts of watches
	// have a limit of their own, of the same size, because a start has time to begin watching.
	QPS float64
	// Changed is called with each user of a Secret whose values changed after they were read.
	Changed func(User)
	// Labelled restricts the used Secrets to those with the label v1.SecretLabel.
	Labelled bool
	// Started closes when the start is over. Quiet closes when the reads that follow it, which are more urgent than watches, are over.
	Started, Quiet <-chan struct{}
	Log            *slog.Logger
	Registerer     prometheus.Registerer
}

// Store keeps the referenced Secrets, and watches each until its last reference ends.
type Store struct {
	options        Options
	metrics        *metrics
	reads, watches *rate.Limiter
	// away is set while the API server does not answer.
	away kube.Outage
	// reading coalesces concurrent reads of one entry, by its address: a later entry of the same Secret is read for itself.
	reading singleflight.Group

	mu      sync.Mutex
	entries map[kube.Key]*entry
	// held has the entry of each of a user's wants, in the same order.
	held map[User][]*entry
	// watching begins the watches of entries. streams counts the running ones.
	watching *kube.Controller[*entry]
	streams  sync.WaitGroup
}

// entry is one Secret. Store.mu protects its fields except key.
type entry struct {
	key kube.Key

	users []User // in order
	// keys are those that users want. The content has the state of the first loaded ones.
	keys   []string
	loaded int
	// known reports whether the content was ever read or watched.
	known bool
	content
	// version is the newest seen resource version of the Secret, empty for none.
	version string
	// resume is the version to resume a watch from: the last version that a watch sent. The version of a read is unsuitable: it is the
	// Secret's own, which is as old as the Secret, and the API server keeps changes for minutes only. ended is when the last watch ended.
	resume string
	ended  time.Time
	// changes counts the changes sent by the watch, to detect one during a read. begun counts the watches that began with the present state,
	// for the same: they do not send earlier deletions.
	changes, begun uint64

	queued   bool
	released bool
	// pause is the delay of the next watch.
	pause time.Duration
	stop  context.CancelFunc
}

// New returns a Store that holds no Secret, and registers its metrics.
func New(o Options) *Store {
	limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(o.QPS), max(1, int(10*o.QPS))) }
	s := &Store{
		options: o, metrics: newMetrics(o.Registerer), reads: limiter(), watches: limiter(),
		away:    kube.Outage{Log: o.Log},
		entries: map[kube.Key]*entry{},
		held:    map[User][]*entry{},
	}
	s.watching = kube.NewController(kube.ControllerOptions[*entry]{
		Workers: watchBeginners, Log: o.Log, Reconcile: s.beginWatch,
		Parts: func(e *entry) (namespace, name string) { return e.key.Parts() },
	})
	return s
}

// Hold makes wants the complete set of the user's references, and returns their present state in the same order. It reads a Secret that
// is not known yet. A missing Secret is a state and no error.
func (s *Store) Hold(ctx context.Context, user User, wants ...Want) ([]Secret, error) {
	entries := s.refer(user, wants)
	for _, e := range entries {
		if err := s.load(ctx, e); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]Secret, len(wants))
	for i, w := range wants {
		states[i] = entries[i].pick(w)
		states[i].Version = entries[i].version
	}
	return states, nil
}

// Expect announces during a start the references that the user will Hold, so that a Secret that several users name for different keys is
// read once. After the start it does nothing. The caller must call Hold or Release later.
func (s *Store) Expect(user User, wants ...Want) {
	select {
	case <-s.options.Started:
	default:
		s.refer(user, wants)
	}
}

// Release ends all references of the user.
func (s *Store) Release(user User) { s.refer(user, nil) }

// Refresh reads the user's Secrets again, in case a watch missed a change. Changes are reported as always.
func (s *Store) Refresh(ctx context.Context, user User) error {
	s.mu.Lock()
	entries := s.held[user]
	s.mu.Unlock()
	for i, e := range entries {
		if slices.Contains(entries[:i], e) {
			continue
		}
		if err := s.read(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// refer sets the user's references and returns the entries of wants.
func (s *Store) refer(user User, wants []Want) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.held[user]
	entries := make([]*entry, len(wants))
	for i, w := range wants {
		e := s.entry(kube.Key{Namespace: user.Key.Namespace, Name: w.Name})
		entries[i] = e
		e.add(user)
		for _, key := range w.Keys {
			if !slices.Contains(e.keys, key) {
				e.keys = append(e.keys, key)
			}
		}
	}
	for _, e := range before {
		if !slices.Contains(entries, e) {
			s.drop(e, user)
		}
	}
	if s.held[user] = entries; len(entries) == 0 {
		delete(s.held, user)
	}
	return entries
}

func (s *Store) entry(k kube.Key) *entry {
	e := s.entries[k]
	if e == nil {
		e = &entry{key: k}
		s.entries[k] = e
		s.metrics.held.Inc()
	}
	return e
}

// find returns the place of a user among the users, and whether it is one.
func (e *entry) find(user User) (place int, found bool) {
	return slices.BinarySearchFunc(e.users, user, func(a, b User) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key.Name, b.Key.Name)) // all are in the Secret's namespace
	})
}

// add makes user one of the users.
func (e *entry) add(user User) {
	if place, found := e.find(user); !found {
		e.users = slices.Insert(e.users, place, user)
	}
}

// drop ends a user's reference to an entry, and the entry with its last user.
func (s *Store) drop(e *entry, user User) {
	place, found := e.find(user)
	if !found {
		return // two of its wants named the Secret
	}
	if e.users = slices.Delete(e.users, place, place+1); len(e.users) > 0 {
		return
	}
	delete(s.entries, e.key)
	s.metrics.held.Dec()
	e.released, e.content = true, content{}
	if e.stop != nil {
		e.stop()
	}
}

// load reads an entry unless the state of all wanted keys is known.
func (s *Store) load(ctx context.Context, e *entry) error {
	// A read already in progress may lack this user's keys: then a second read gets them.
	for range 2 {
		if s.isLoaded(e) {
			return nil
		}
		_, err, _ := s.reading.Do(fmt.Sprintf("%p", e), func() (any, error) {
			if s.isLoaded(e) { // by a read that ended just now
				return nil, nil
			}
			return nil, s.read(ctx, e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) isLoaded(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.complete()
}

// read reads an entry's Secret from the API server, until what it has read is certain. After a success it enqueues the watch.
func (s *Store) read(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for certain := false; !certain; {
		var err error
		if certain, err = s.readOnce(ctx, e); err != nil {
			return err
		}
	}
	s.follow(e)
	return nil
}

// readOnce is one read. It reports false if the Secret may have been deleted since it was read.
func (s *Store) readOnce(ctx context.Context, e *entry) (certain bool, err error) {
	if err := s.reads.Wait(ctx); err != nil {
		return false, fmt.Errorf("read secret %s: %w", e.key, err)
	}
	s.mu.Lock()
	changes, begun, before, version := e.changes, e.begun, e.version, ""
	if !e.known {
		// The first read is served from the API server's memory, as for informers: the watch that follows sends a newer state. A later read
		// asks for the newest state, because a watch sends nothing twice.
		version = "0"
	}
	s.mu.Unlock()
	object, err := s.options.Source.Get(ctx, e.key, version)
	if apierrors.IsNotFound(err) && version != "" {
		object, err = s.options.Source.Get(ctx, e.key, "") // the API server's memory may lack a new Secret
	}
	switch {
	case apierrors.IsNotFound(err):
		s.change(func() []User {
			if e.released || e.changes != changes { // the watch knows more
				return nil
			}
			return e.put(content{}, e.version)
		})
		return true, nil
	case apierrors.IsForbidden(err) || apierrors.IsInternalError(err) || errors.Is(err, errNoSecret):
		// The answer is about this Secret, so the others need not wait for a better one. A tenant can make one that does not decode.
		return false, kube.Isolated(fmt.Errorf("read secret %s: %w", e.key, err))
	case err != nil:
		return false, fmt.Errorf("read secret %s: %w", e.key, err)
	}
	// It is not certain if a watch has begun with the present state meanwhile: the Secret may have been deleted before that.
	s.change(func() []User {
		certain = e.begun == begun
		// A newest state counts whatever its version, unless another came meanwhile: the API server's store may have been restored from a backup.
		newest := version == "" && e.version == before && e.changes == changes
		if !certain || !newest && kube.Older(object.ResourceVersion, e.version) {
			return nil
		}
		return s.store(e, object)
	})
	return certain, nil
}

// change calls f, which changes an entry, under the lock, and then informs the users that f returns.
func (s *Store) change(f func() []User) {
	s.mu.Lock()
	users := f()
	s.mu.Unlock()
	for _, u := range users {
		s.options.Changed(u)
	}
}

// store stores a Secret's state and returns the users to inform. The caller has the lock.
func (s *Store) store(e *entry, object *corev1.Secret) []User {
	if e.released {
		return nil
	}
	return e.put(contentOf(object, e.keys, s.options.Labelled), object.ResourceVersion)
}

// complete reports whether the content has the state of all wanted keys.
func (e *entry) complete() bool { return e.known && e.loaded == len(e.keys) }

// put replaces the content and returns the users to inform, nil if the known content is unchanged. Keys that were not known before make
// no difference.
func (e *entry) put(now content, version string) []User {
	differs := e.known && !e.same(now, e.keys[:e.loaded])
	if differs || !e.complete() { // else the values stay, which the users share
		e.content = now
	}
	e.version, e.known, e.loaded = version, true, len(e.keys)
	if !differs {
		return nil
	}
	return slices.Clone(e.users)
}

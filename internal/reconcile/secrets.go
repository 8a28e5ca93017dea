package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"notifier/internal/reconcile/kube"
)

// secretSource reads single Secrets. It cannot list, on purpose.
type secretSource interface {
	Get(ctx context.Context, key kube.Key) (*corev1.Secret, error)
	// Watch follows one Secret from after a resource version, or for "0" from a recent state, told as an addition if it exists.
	Watch(ctx context.Context, key kube.Key, resourceVersion string) (watch.Interface, error)
}

// readTimeout bounds one read of a Secret.
const readTimeout = 10 * time.Second

// secretUser is an object that refers to Secrets. They are of its own namespace by construction.
type secretUser struct {
	kind string
	key  kube.Key
}

// want is a Secret that a user refers to, and the keys of it that are read.
type want struct {
	name string
	keys []string
}

// secret is what a Secret holds under the keys that were wanted.
type secret struct {
	// found is whether the Secret exists.
	found bool
	data  map[string][]byte
}

// String hides the values from logs.
func (s secret) String() string { return fmt.Sprintf("secret{found:%t}", s.found) }

// GoString is String.
func (s secret) GoString() string { return s.String() }

// LogValue is String.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// value returns what is stored under a key, empty when there is nothing.
func (s secret) value(key string) string { return string(s.data[key]) }

// secretsOptions configure secrets; all are required.
type secretsOptions struct {
	source secretSource
	// reads and watches are the budgets of Get and of Watch requests. Two of them, because a start reads all Secrets in a hurry
	// and has time to begin watching.
	reads, watches *rate.Limiter
	// changed is told each user of a Secret whose values changed after they were read.
	changed func(secretUser)
	metrics *metrics
	log     *slog.Logger
}

// secrets holds the Secrets that are referred to, and follows each until nobody refers to it any more.
type secrets struct {
	secretsOptions
	wake chan struct{}

	mu      sync.Mutex
	entries map[kube.Key]*secretEntry
	held    map[secretUser]map[kube.Key]struct{}
	// fresh are entries that nobody follows yet.
	fresh []*secretEntry
}

// secretEntry is one Secret. secrets.mu guards its fields but reading.
type secretEntry struct {
	key kube.Key
	// reading is held, by whoever put a value in, while the Secret is read, so that users that come together read it once.
	reading chan struct{}

	users map[secretUser]struct{}
	keys  map[string]struct{}
	// loaded is whether found and data tell the state of all keys.
	loaded bool
	found  bool
	data   map[string][]byte
	// version is the newest resource version of the Secret that was seen, empty when none was.
	version string
	// resume is from where a watch may go on: the last version that a watch told. The version that a read gave will not do: it is
	// the Secret's own, which is as old as the Secret, and the API server goes back minutes only.
	resume string
	// changes counts what the watch told, to see that a read was overtaken.
	changes  uint64
	queued   bool
	released bool
	stop     context.CancelFunc
}

func newSecrets(o secretsOptions) *secrets {
	return &secrets{
		secretsOptions: o,
		wake:           make(chan struct{}, 1),
		entries:        map[kube.Key]*secretEntry{},
		held:           map[secretUser]map[kube.Key]struct{}{},
	}
}

// Hold makes wants all that the user refers to, and returns their present state in the same order. A Secret that is not known yet
// is read; its absence is a state and no error.
func (s *secrets) Hold(ctx context.Context, user secretUser, wants ...want) ([]secret, error) {
	entries := s.refer(user, wants)
	for _, e := range entries {
		if err := s.load(ctx, e); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]secret, len(wants))
	for i, w := range wants {
		states[i] = secret{found: entries[i].found, data: pick(entries[i].data, w.keys)}
	}
	return states, nil
}

// Release ends all that the user refers to.
func (s *secrets) Release(user secretUser) { s.refer(user, nil) }

// Refresh reads again what the user refers to, for the case that a watch misses something. Changes are told as always.
func (s *secrets) Refresh(ctx context.Context, user secretUser) error {
	s.mu.Lock()
	var entries []*secretEntry
	for k := range s.held[user] {
		entries = append(entries, s.entries[k])
	}
	s.mu.Unlock()
	for _, e := range entries {
		if err := s.read(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// refer sets what the user refers to and returns the entries of wants.
func (s *secrets) refer(user secretUser, wants []want) []*secretEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.held[user]
	now := make(map[kube.Key]struct{}, len(wants))
	entries := make([]*secretEntry, len(wants))
	for i, w := range wants {
		k := kube.Key{Namespace: user.key.Namespace, Name: w.name}
		now[k] = struct{}{}
		entries[i] = s.entry(k)
		entries[i].users[user] = struct{}{}
		for _, key := range w.keys {
			if _, known := entries[i].keys[key]; !known {
				entries[i].keys[key] = struct{}{}
				entries[i].loaded = false
			}
		}
	}
	for k := range before {
		if _, still := now[k]; !still {
			s.drop(s.entries[k], user)
		}
	}
	if len(now) == 0 {
		delete(s.held, user)
	} else {
		s.held[user] = now
	}
	return entries
}

func (s *secrets) entry(k kube.Key) *secretEntry {
	e := s.entries[k]
	if e == nil {
		e = &secretEntry{key: k, reading: make(chan struct{}, 1), users: map[secretUser]struct{}{}, keys: map[string]struct{}{}}
		s.entries[k] = e
		s.metrics.secrets.Inc()
	}
	return e
}

// drop ends a user's reference to an entry, and the entry with its last user.
func (s *secrets) drop(e *secretEntry, user secretUser) {
	delete(e.users, user)
	if len(e.users) > 0 {
		return
	}
	delete(s.entries, e.key)
	s.metrics.secrets.Dec()
	e.released, e.data = true, nil
	if e.stop != nil {
		e.stop()
	}
}

// load reads an entry unless it is known.
func (s *secrets) load(ctx context.Context, e *secretEntry) error {
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	loaded := e.loaded
	s.mu.Unlock()
	if loaded {
		return nil
	}
	return s.read(ctx, e)
}

// read asks the API server for an entry's Secret. Once that worked, the entry is followed.
func (s *secrets) read(ctx context.Context, e *secretEntry) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.reads.Wait(ctx); err != nil {
		return fmt.Errorf("read secret %s: %w", e.key, err)
	}
	s.mu.Lock()
	changes := e.changes
	s.mu.Unlock()
	object, err := s.source.Get(ctx, e.key)
	switch {
	case apierrors.IsNotFound(err):
		s.missing(e, changes)
	case apierrors.IsForbidden(err) || apierrors.IsInternalError(err):
		// An answer about this Secret: the others need not wait for it to become another.
		return kube.Isolated(fmt.Errorf("read secret %s: %w", e.key, err))
	case err != nil:
		return fmt.Errorf("read secret %s: %w", e.key, err)
	default:
		s.set(e, object)
	}
	s.follow(e)
	return nil
}

// set takes in a Secret's state as read or as told by the watch, unless a newer one is known.
func (s *secrets) set(e *secretEntry, object *corev1.Secret) {
	s.mu.Lock()
	if e.released || kube.Older(object.ResourceVersion, e.version) {
		s.mu.Unlock()
		return
	}
	data := make(map[string][]byte, len(e.keys))
	for key := range e.keys {
		if v, ok := object.Data[key]; ok {
			data[key] = bytes.Clone(v)
		}
	}
	users := e.put(true, data, object.ResourceVersion)
	s.mu.Unlock()
	s.tell(users)
}

// missing takes in that a read, begun when the watch had told so many changes, found no Secret.
func (s *secrets) missing(e *secretEntry, changes uint64) {
	s.mu.Lock()
	if e.released || e.changes != changes {
		s.mu.Unlock()
		return
	}
	users := e.put(false, nil, e.version)
	s.mu.Unlock()
	s.tell(users)
}

// put changes the state and returns the users to tell, if it differs from what was known before.
func (e *secretEntry) put(found bool, data map[string][]byte, version string) []secretUser {
	differs := e.found != found || !sameData(e.data, data)
	known := e.version != "" || e.loaded
	e.found, e.data, e.version, e.loaded = found, data, version, true
	if !differs || !known {
		return nil
	}
	users := make([]secretUser, 0, len(e.users))
	for u := range e.users {
		users = append(users, u)
	}
	return users
}

func (s *secrets) tell(users []secretUser) {
	for _, u := range users {
		s.changed(u)
	}
}

func sameData(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || !bytes.Equal(v, w) {
			return false
		}
	}
	return true
}

func pick(data map[string][]byte, keys []string) map[string][]byte {
	picked := make(map[string][]byte, len(keys))
	for _, k := range keys {
		if v, ok := data[k]; ok {
			picked[k] = v
		}
	}
	return picked
}

package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"notifier/internal/reconcile/kube"
)

// readTimeout bounds one read of a Secret.
const readTimeout = 10 * time.Second

// secretUser is an object that refers to Secrets. They are of its own namespace by construction.
type secretUser struct {
	kind string
	key  kube.Key
}

// secretsOptions configure secrets; all are required.
type secretsOptions struct {
	source SecretSource
	// reads and watches are the budgets of Get and of Watch requests. Two of them, because a start reads all Secrets in a hurry
	// and has time to begin watching.
	reads, watches *rate.Limiter
	// changed is called with each user of a Secret whose values changed after they were read.
	changed func(secretUser)
	// labelled says that only Secrets with the label v1.SecretLabel are used.
	labelled bool
	// started closes when the start is over, and quiet when the reads that follow it and are more urgent than watches are over.
	started, quiet <-chan struct{}
	metrics        *metrics
	log            *slog.Logger
}

// secrets holds the Secrets that are referred to, and follows each until nobody refers to it any more.
type secrets struct {
	secretsOptions
	// away is set while the API server does not answer.
	away kube.Outage

	mu      sync.Mutex
	entries map[kube.Key]*secretEntry
	held    map[secretUser][]kube.Key
	// watching begins the watches of entries, and streams are those that were begun.
	watching *kube.Controller[*secretEntry]
	streams  sync.WaitGroup
}

// secretEntry is one Secret. secrets.mu guards its fields but reads.
type secretEntry struct {
	key kube.Key
	// reads has users that come together read the Secret once.
	reads singleflight.Group

	users map[secretUser]struct{}
	// keys are those that users want, each with whether the content tells its state, and loaded is whether it does so for all.
	keys   map[string]bool
	loaded bool
	// known is whether the content was ever read or watched.
	known bool
	secretContent
	// version is the newest resource version of the Secret that was seen, empty when none was.
	version string
	// resume is from where a watch may go on: the last version that a watch sent. The version that a read gave will not do: it is
	// the Secret's own, which is as old as the Secret, and the API server goes back minutes only.
	resume string
	// changes counts what the watch sent, to see that a read was overtaken.
	changes  uint64
	queued   bool
	released bool
	// pause is how long the next watch waits.
	pause time.Duration
	stop  context.CancelFunc
}

func newSecrets(o secretsOptions) *secrets {
	s := &secrets{
		secretsOptions: o,
		away:           kube.Outage{Log: o.log},
		entries:        map[kube.Key]*secretEntry{},
		held:           map[secretUser][]kube.Key{},
	}
	s.watching = kube.NewController(kube.ControllerOptions[*secretEntry]{
		Name: "watches of secrets", Workers: watchBeginners, Log: o.log, Reconcile: s.beginWatch,
		Parts: func(e *secretEntry) (namespace, name string) { return e.key.Parts() },
	})
	return s
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
		states[i] = entries[i].pick(w)
		states[i].version = entries[i].version
	}
	return states, nil
}

// Expect says during a start what the user is going to hold, so that a Secret which several name for different keys is read once, for
// all of them. Whoever calls it sees to it that Hold or Release follows.
func (s *secrets) Expect(user secretUser, wants ...want) {
	select {
	case <-s.started:
	default:
		s.refer(user, wants)
	}
}

// Release ends all that the user refers to.
func (s *secrets) Release(user secretUser) { s.refer(user, nil) }

// Refresh reads again what the user refers to, for the case that a watch misses something. Changes are followed as always.
func (s *secrets) Refresh(ctx context.Context, user secretUser) error {
	s.mu.Lock()
	var entries []*secretEntry
	for _, k := range s.held[user] {
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
	now := make([]kube.Key, 0, len(wants))
	entries := make([]*secretEntry, len(wants))
	for i, w := range wants {
		k := kube.Key{Namespace: user.key.Namespace, Name: w.name}
		if !slices.Contains(now, k) {
			now = append(now, k)
		}
		entries[i] = s.entry(k)
		entries[i].users[user] = struct{}{}
		for _, key := range w.keys {
			if _, known := entries[i].keys[key]; !known {
				entries[i].keys[key] = false
				entries[i].loaded = false
			}
		}
	}
	for _, k := range before {
		if !slices.Contains(now, k) {
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
		e = &secretEntry{key: k, users: map[secretUser]struct{}{}, keys: map[string]bool{}}
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
	e.released, e.secretContent = true, secretContent{}
	if e.stop != nil {
		e.stop()
	}
}

// load reads an entry unless all is known that its users want of it.
func (s *secrets) load(ctx context.Context, e *secretEntry) error {
	// A read that was under way already may not have what this user wants: then one more does.
	for range 2 {
		s.mu.Lock()
		loaded := e.loaded
		s.mu.Unlock()
		if loaded {
			return nil
		}
		if _, err, _ := e.reads.Do("", func() (any, error) { return nil, s.read(ctx, e) }); err != nil {
			return err
		}
	}
	return nil
}

// read asks the API server for an entry's Secret. Once that worked, the entry is followed.
func (s *secrets) read(ctx context.Context, e *secretEntry) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.reads.Wait(ctx); err != nil {
		return fmt.Errorf("read secret %s: %w", e.key, err)
	}
	s.mu.Lock()
	changes, version := e.changes, ""
	if !e.known {
		// The first read asks no etcd, as informers do: the watch that follows brings a newer state. A later read asks for the newest,
		// because a watch tells nothing twice.
		version = "0"
	}
	s.mu.Unlock()
	object, err := s.source.Get(ctx, e.key, version)
	if apierrors.IsNotFound(err) && version != "" {
		object, err = s.source.Get(ctx, e.key, "") // the API server's memory may not have it yet
	}
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

// set takes in a Secret's state as read or as sent by the watch, unless a newer one is known.
func (s *secrets) set(e *secretEntry, object *corev1.Secret) {
	s.mu.Lock()
	if e.released || kube.Older(object.ResourceVersion, e.version) {
		s.mu.Unlock()
		return
	}
	users := e.put(contentOf(object, e.keys, s.labelled), object.ResourceVersion)
	s.mu.Unlock()
	s.tell(users)
}

// missing takes in that a read, begun when the watch had sent so many changes, found no Secret.
func (s *secrets) missing(e *secretEntry, changes uint64) {
	s.mu.Lock()
	if e.released || e.changes != changes {
		s.mu.Unlock()
		return
	}
	users := e.put(secretContent{}, e.version)
	s.mu.Unlock()
	s.tell(users)
}

// put changes the content and returns the users to tell, if it differs in what was known before. That users want more keys than
// were known is no difference.
func (e *secretEntry) put(now secretContent, version string) []secretUser {
	differs := e.known && !e.same(now, e.keys)
	e.secretContent, e.version, e.known, e.loaded = now, version, true, true
	for key := range e.keys {
		e.keys[key] = true
	}
	if !differs {
		return nil
	}
	return slices.Collect(maps.Keys(e.users))
}

func (s *secrets) tell(users []secretUser) {
	for _, u := range users {
		s.changed(u)
	}
}

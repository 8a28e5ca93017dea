package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/event"
	"notifier/internal/options"
	"notifier/internal/reconcile/kube"
)

// Events is the part of the bus's stream of events that the watchers need.
type Events interface {
	// PublishEvent publishes the record and returns once it is acknowledged. duplicate reports that the stream had its ID already.
	PublishEvent(ctx context.Context, r *event.Record) (duplicate bool, err error)
	// PublishEventAfter is PublishEvent, but returns event.ErrOvertaken when an event of the object was published after that at seq, zero
	// for none.
	PublishEventAfter(ctx context.Context, r *event.Record, seq uint64) (duplicate bool, err error)
	// FollowEvents calls h with every record accepted since from, and caughtUp once, after the last that is stored when it is called. Of a record's
	// event it needs only the object, the revision, and the beginning of a failure's message, and h may keep it. It returns when ctx ends.
	FollowEvents(ctx context.Context, from time.Time, h func(*event.Record), caughtUp func())
	// LastEvent returns the last stored record about an object.
	LastEvent(ctx context.Context, namespace, kind, name string) (*event.Record, bool, error)
}

// State is the bus's key-value store of last published states.
type State interface {
	Get(ctx context.Context, key string) (value []byte, revision uint64, found bool, err error)
	// Put writes the value if the key still has the revision, zero meaning that it does not exist.
	Put(ctx context.Context, key string, value []byte, revision uint64) error
	// Delete removes the key; a missing key is no error.
	Delete(ctx context.Context, key string) error
	// All calls each with every key and its value.
	All(ctx context.Context, each func(key string, value []byte)) error
}

// Options configure a Watcher.
type Options struct {
	// Objects watches the definitions of the kinds and their objects. Catalogue returns the served version; the caller runs it.
	Objects   Objects
	Catalogue *kube.Catalogue
	// Namespace confines the cache to one namespace; empty means all.
	Namespace string
	Events    Events
	State     State
	// Changed, unless nil, is called with the namespace of each object that is made or deleted, or whose labels change. Those that a start
	// finds do not count. It must not block.
	Changed    func(namespace string)
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	return options.Missing(map[string]bool{
		"Objects": o.Objects == nil, "Catalogue": o.Catalogue == nil, "Events": o.Events == nil,
		"State": o.State == nil, "Log": o.Log == nil, "Registerer": o.Registerer == nil,
	})
}

// Watcher keeps the cache of Flux objects. Its methods may be called concurrently and at any time.
type Watcher struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics

	crds       cache.SharedIndexInformer
	crdsSynced cache.DoneChecker
	// queue examines the kinds whose definitions changed.
	queue *kube.Controller[*Kind]

	mu sync.RWMutex
	// running has the informer of each served kind. examined has the kinds that are known to be served or not.
	running  map[*Kind]*informer
	examined map[*Kind]bool
	// patience is the time after which kinds that were not read yet are no longer Pending; zero before Run. anew has that time of the kinds
	// that began to be read after they were examined.
	patience time.Time
	anew     map[*Kind]time.Time

	// started is when the examination of kinds began. looked has the kinds with a first attempt. Only the queue's one worker uses them.
	started time.Time
	looked  map[*Kind]bool

	// begun closes when the objects may be read; fill closes filled when all objects are read.
	begun, filled chan struct{}
	fill          func()

	leading atomic.Pointer[publisher]
}

// The pauses between looks at a definition that the server does not serve (yet), or cannot report.
const (
	minDiscoveryPause = 250 * time.Millisecond
	maxDiscoveryPause = 30 * time.Second
	// discoveryLag is the pause before a changed definition is examined once more: the server's discovery follows the definition with a
	// delay, and nothing reports when it has.
	discoveryLag = 5 * time.Second
)

const (
	// maxBegin is how long reading the objects waits for more urgent requests of a start.
	maxBegin = 30 * time.Second
	// maxAwaited is how long a kind may be Pending. It is longer than the period in which controllers retry POSTs.
	maxAwaited = time.Minute
)

// New wires a Watcher. Run starts it.
func New(opts Options) (*Watcher, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("watch options: %w", err)
	}
	w := &Watcher{
		opts:     opts,
		log:      opts.Log,
		metrics:  newMetrics(opts.Registerer),
		running:  map[*Kind]*informer{},
		examined: map[*Kind]bool{},
		anew:     map[*Kind]time.Time{},
		looked:   map[*Kind]bool{},
		begun:    make(chan struct{}),
		filled:   make(chan struct{}),
	}
	w.queue = kube.NewController(kube.ControllerOptions[*Kind]{
		Workers: 1, Reconcile: w.examine, Log: opts.Log, MinBackoff: minDiscoveryPause, MaxBackoff: maxDiscoveryPause,
		Parts: func(k *Kind) (namespace, name string) { return "", k.Kind },
	})
	w.fill = sync.OnceFunc(func() { close(w.filled) })
	resource := schema.GroupVersionResource{Group: definitions.Group, Version: "v1", Resource: definitions.Resource}
	w.crds = cache.NewSharedIndexInformer(opts.Objects.ListerWatcher(definitions, resource, ""), nil, 0, cache.Indexers{})
	registration, err := w.crds.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial { // Run examines all kinds after the first list
				w.definitionChanged(obj)
			}
		},
		UpdateFunc: func(_, obj any) { w.definitionChanged(obj) },
		DeleteFunc: w.definitionChanged,
	})
	if err != nil {
		panic(err) // its only error is that the informer has stopped
	}
	w.crdsSynced = registration.HasSyncedChecker()
	return w, nil
}

// Run keeps the cache until ctx ends, and joins all goroutines that it started. It is called once. The objects are read when begin
// closes, or maxBegin after the start: a start has more urgent requests for the API server.
func (w *Watcher) Run(ctx context.Context, begin <-chan struct{}) error {
	var wg sync.WaitGroup
	defer w.stopAll() // last, when nothing can start another informer
	defer wg.Wait()
	wg.Go(func() { w.crds.RunWithContext(ctx) })
	w.bePatient()
	if !cache.WaitFor(ctx, "", w.crdsSynced) {
		return nil // only the end of ctx ends the wait
	}
	w.bePatient() // the API server may have been away for long, and no kind can have been read before
	if !kube.Await(ctx, begin, maxBegin) {
		return nil
	}
	w.started = time.Now()
	close(w.begun)
	for _, kind := range kinds {
		w.queue.Enqueue(kind)
	}
	w.queue.Run(ctx)
	return nil
}

// definitionChanged enqueues the definition's kind, now and once more when discovery must have followed.
func (w *Watcher) definitionChanged(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	for _, kind := range kinds {
		if kind.crd() == key {
			w.queue.Enqueue(kind)
			w.queue.EnqueueAfter(kind, discoveryLag)
		}
	}
}

// examine brings the kind's informer in line with the cluster: none if the kind is not defined or not served, else one on the served
// version of the present definition.
func (w *Watcher) examine(ctx context.Context, kind *Kind) error {
	definition, defined := w.definition(kind)
	if !defined {
		w.stop(kind)
		w.markExamined(kind)
		w.publisherOf(func(t *publisher) { t.kindChanged(kind) })
		return nil
	}
	named := schema.GroupKind{Group: kind.Group, Kind: kind.Kind}
	resource, served, err := w.opts.Catalogue.Preferred(ctx, w.since(kind), named, kind.Resource)
	if err != nil {
		return fmt.Errorf("kind cannot be watched yet: %w", err)
	}
	if !served {
		w.stop(kind)
		w.markExamined(kind)
		return kube.ErrNotYet // discovery may lag behind the definition
	}
	if in := w.informerOf(kind); in == nil || in.resource != resource || in.definition != definition.UID {
		w.await(kind)
		w.stop(kind)
		w.start(ctx, kind, resource, definition.UID)
	}
	w.markExamined(kind)
	return nil
}

// definition returns the definition of a kind, if the cluster has one.
func (w *Watcher) definition(kind *Kind) (*object, bool) {
	return kube.NewCache[*object](w.crds).Get(kube.Key{Name: kind.crd()})
}

// since returns the earliest time of a usable answer of the catalogue about a kind. For the first look it is the start, so that all
// kinds share one answer; for any later look it is now.
func (w *Watcher) since(kind *Kind) time.Time {
	if w.looked[kind] {
		return time.Now()
	}
	w.looked[kind] = true
	return w.started
}

func (w *Watcher) markExamined(kind *Kind) {
	w.mu.Lock()
	w.examined[kind] = true
	w.mu.Unlock()
	w.markRead()
}

// await has a kind that was examined be Pending until it is read anew.
func (w *Watcher) await(kind *Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.examined[kind] {
		w.examined[kind], w.anew[kind] = false, time.Now().Add(maxAwaited)
	}
}

// Pending reports whether the objects of a kind are being read, at the start, or since the cluster serves the kind or another version of it,
// so that nothing is known of them yet. The caller asks again later. An unreadable kind is pending for at most a minute; an unwatched kind is
// never pending.
func (w *Watcher) Pending(kind string) bool {
	k := kindNamed(kind)
	if k == nil {
		return false
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.read(k) {
		return false
	}
	return w.patient() || time.Now().Before(w.anew[k])
}

// bePatient has the kinds that were not read yet be awaited from now on.
func (w *Watcher) bePatient() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = time.Now().Add(maxAwaited)
}

// patient reports whether kinds that were not read yet are still awaited. The caller holds the lock.
func (w *Watcher) patient() bool { return w.patience.IsZero() || time.Now().Before(w.patience) }

// starts reports whether kinds are being read for the first time.
func (w *Watcher) starts() bool {
	if w.HasSynced() {
		return false
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.patient()
}

// read reports whether the cache has all objects of a kind, or none because the cluster does not serve it. The caller holds the lock.
func (w *Watcher) read(kind *Kind) bool {
	in := w.running[kind]
	return w.examined[kind] && (in == nil || in.hasSynced())
}

// markRead closes filled when the cache has all objects of all kinds that the cluster serves.
func (w *Watcher) markRead() {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, kind := range kinds {
		if !w.read(kind) {
			return
		}
	}
	w.fill()
}

// Filled closes when the cache has all objects of all kinds that the cluster serves. It stays closed when a later kind is installed or
// cannot be listed.
func (w *Watcher) Filled() <-chan struct{} { return w.filled }

// HasSynced reports whether Filled is closed.
func (w *Watcher) HasSynced() bool {
	select {
	case <-w.filled:
		return true
	default:
		return false
	}
}

package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// Events is what the watchers need of the bus's stream of events.
type Events interface {
	// PublishEvent puts the record on the bus and returns once it is kept; duplicate says that its ID was there already.
	PublishEvent(ctx context.Context, r *event.Record) (duplicate bool, err error)
	// PublishEventAfter is PublishEvent, but returns event.ErrOvertaken when an event of the object came in after the one at seq, zero for
	// none.
	PublishEventAfter(ctx context.Context, r *event.Record, seq uint64) (duplicate bool, err error)
	// FollowEvents hands over every record accepted since from; of its event the object, the revision, and of a failure how its message
	// begins are enough. It returns when ctx ends or on an error.
	FollowEvents(ctx context.Context, from time.Time, h func(*event.Record)) error
	// LastEvent returns the last record kept about an object.
	LastEvent(ctx context.Context, namespace, kind, name string) (*event.Record, bool, error)
}

// State is the bus's key-value store of last published states.
type State interface {
	Get(ctx context.Context, key string) (value []byte, revision uint64, found bool, err error)
	// Put writes the value if the key still has the revision, zero meaning that it does not exist.
	Put(ctx context.Context, key string, value []byte, revision uint64) error
	// Delete removes the key; it is no error when there is none.
	Delete(ctx context.Context, key string) error
	// All hands over every key with its value and revision, until each returns false.
	All(ctx context.Context, each func(key string, value []byte, revision uint64) bool) error
}

// Options configure a Watcher.
type Options struct {
	// Metadata watches the definitions of the kinds, Objects their objects, and Catalogue says in which version. Its owner runs it.
	Metadata  metadata.Interface
	Objects   Objects
	Catalogue *kube.Catalogue
	// Namespace confines the cache to one namespace; empty means all.
	Namespace string
	Events    Events
	State     State
	// Settle is how long a transition waits for a POST about it, 5 s by default.
	Settle time.Duration
	// Workers bounds the number of transitions that are published at once, 32 by default.
	Workers    int
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	if o.Settle == 0 {
		o.Settle = 5 * time.Second
	}
	if o.Workers == 0 {
		o.Workers = 32
	}
	var errs []error
	for _, need := range []struct {
		name    string
		missing bool
	}{
		{"Metadata", o.Metadata == nil},
		{"Objects", o.Objects == nil},
		{"Catalogue", o.Catalogue == nil},
		{"Events", o.Events == nil},
		{"State", o.State == nil},
		{"Log", o.Log == nil},
		{"Registerer", o.Registerer == nil},
	} {
		if need.missing {
			errs = append(errs, fmt.Errorf("%s is missing", need.name))
		}
	}
	if o.Settle < 0 || o.Workers < 0 {
		errs = append(errs, errors.New("a negative Settle or Workers"))
	}
	return errors.Join(errs...)
}

// Watcher keeps the cache of Flux objects. Its methods may be called at any time from anywhere.
type Watcher struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics

	crds       cache.SharedIndexInformer
	crdsSynced cache.DoneChecker
	// queue has the definitions of kinds looked at.
	queue *kube.Controller[*Kind]

	mu sync.RWMutex
	// running has the informer of each kind that is served; examined the kinds of which that is known either way.
	running  map[*Kind]*informer
	examined map[*Kind]bool
	// patience is when kinds that cannot be read are no longer waited for; zero before Run.
	patience time.Time

	// started is when kinds began to be examined, and looked has those that were, if in vain. They are the queue's one worker's.
	started time.Time
	looked  map[*Kind]bool

	// begun closes when the objects may be read, filled when all are, by fill.
	begun, filled chan struct{}
	fill          func()

	leading atomic.Pointer[publisher]
}

// The pauses between looks at a definition that the server does not serve (yet), or cannot say.
const (
	minDiscoveryPause = 250 * time.Millisecond
	maxDiscoveryPause = 30 * time.Second
	// discoveryLag is after how long a changed definition is looked at once more: the server's discovery follows the definition
	// with a delay, and nothing tells when it has.
	discoveryLag = 5 * time.Second
)

const (
	// maxBegin is how long reading the objects waits for more urgent requests of a start.
	maxBegin = 30 * time.Second
	// maxAwaited is how long after the start a kind may be Pending. It is longer than emitters try again.
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
		looked:   map[*Kind]bool{},
		begun:    make(chan struct{}),
		filled:   make(chan struct{}),
	}
	w.queue = kube.NewController(kube.ControllerOptions[*Kind]{
		Name: "kinds", Workers: 1, Reconcile: w.examine, Log: opts.Log, MinBackoff: minDiscoveryPause, MaxBackoff: maxDiscoveryPause,
		Parts: func(k *Kind) (namespace, name string) { return "", k.Kind },
	})
	w.fill = sync.OnceFunc(func() { close(w.filled) })
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	w.crds = metadatainformer.NewFilteredMetadataInformer(opts.Metadata, resource, "", 0, cache.Indexers{}, nil).Informer()
	if err := w.crds.SetTransform(trimDefinition); err != nil {
		return nil, fmt.Errorf("watch definitions: %w", err)
	}
	registration, err := w.crds.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial { // Run looks at all kinds once the first list is there
				w.definitionChanged(obj)
			}
		},
		UpdateFunc: func(_, obj any) { w.definitionChanged(obj) },
		DeleteFunc: w.definitionChanged,
	})
	if err != nil {
		return nil, fmt.Errorf("watch definitions: %w", err)
	}
	w.crdsSynced = registration.HasSyncedChecker()
	return w, nil
}

// trimDefinition keeps of a definition that it exists and which one it is.
func trimDefinition(in any) (any, error) {
	if m, ok := in.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		}}, nil
	}
	return in, nil
}

// Run keeps the cache until ctx ends, and joins all it started. It is called once. The objects are read when begin closes, or maxBegin
// after the start: a start has more urgent things to ask the API server for.
func (w *Watcher) Run(ctx context.Context, begin <-chan struct{}) error {
	var wg sync.WaitGroup
	defer w.stopAll() // last, when nothing can start another informer
	defer wg.Wait()
	wg.Go(func() { w.crds.RunWithContext(ctx) })
	w.mu.Lock()
	w.patience = time.Now().Add(maxAwaited)
	w.mu.Unlock()
	if !cache.WaitFor(ctx, "", w.crdsSynced) || !kube.Await(ctx, begin, maxBegin) {
		return nil // only the end of ctx ends the wait
	}
	w.started = time.Now()
	close(w.begun)
	for _, kind := range kinds {
		w.queue.Enqueue(kind)
	}
	_ = w.queue.Run(ctx) // it waits for no cache, so that it ends with ctx alone
	return nil
}

// definitionChanged looks at the kind that a definition is about, now and once more when discovery must have followed.
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

// examine brings the kind's informer in line with the cluster: none where the kind is not defined or not served, else one on
// the version that is served of the definition that stands.
func (w *Watcher) examine(ctx context.Context, kind *Kind) error {
	obj, defined, err := w.crds.GetStore().GetByKey(kind.crd())
	if err != nil {
		return fmt.Errorf("look up definition: %w", err)
	}
	definition, ok := obj.(*metav1.PartialObjectMetadata)
	if !defined || !ok {
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
		return kube.ErrNotYet // discovery may lag behind the definition, so ask again
	}
	if in := w.informerOf(kind); in == nil || in.resource != resource || in.definition != definition.UID {
		w.stop(kind)
		if err := w.start(ctx, kind, resource, definition.UID); err != nil {
			return err
		}
	}
	w.markExamined(kind)
	return nil
}

// since is how old the catalogue's answer about a kind may be: as old as the start for the first look, which all kinds have together, and
// not older than the present one for any other.
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

// Pending reports whether the objects of a kind are still being read for the first time, so that nothing can be said of them yet. The
// caller asks again later. A kind that cannot be read is pending for a minute after the start and no longer; a kind that is not watched
// never is.
func (w *Watcher) Pending(kind string) bool {
	if w.HasSynced() {
		return false
	}
	k := kindNamed(kind)
	if k == nil {
		return false
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if !w.patience.IsZero() && time.Now().After(w.patience) {
		return false
	}
	return !w.read(k)
}

// read reports whether the cache holds all objects of a kind, or none because the cluster does not serve it. The caller holds the lock.
func (w *Watcher) read(kind *Kind) bool {
	in := w.running[kind]
	return w.examined[kind] && (in == nil || in.hasSynced())
}

// markRead closes filled when the cache holds all objects of all kinds that the cluster serves.
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

// Filled closes when the cache holds all objects of all kinds that the cluster serves. A kind that is installed, or cannot be listed,
// later does not undo it.
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

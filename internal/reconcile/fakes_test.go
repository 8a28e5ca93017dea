package reconcile

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// hookTable is a HookTable that records the served hooks.
type hookTable struct {
	mu       sync.Mutex
	hooks    map[string][]*receiver.Hook
	awaited  map[string][]string // paths, by key
	taken    map[string]bool     // keys for which Put reports a full path
	complete bool
	// late counts the first hooks of keys that were put after the table was complete.
	late int
}

func (h *hookTable) Put(key string, hooks ...*receiver.Hook) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.complete && h.hooks[key] == nil {
		h.late++
	}
	h.hooks[key] = hooks
	delete(h.awaited, key)
	if h.taken[key] {
		return receiver.ErrPathFull
	}
	return nil
}

func (h *hookTable) Delete(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.hooks, key)
	delete(h.awaited, key)
}

func (h *hookTable) Suspend(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hooks := slices.Clone(h.hooks[key])
	for i, hook := range hooks {
		suspended := *hook
		suspended.Suspended = true
		hooks[i] = &suspended
	}
	h.hooks[key] = hooks
}

func (h *hookTable) Await(key string, paths ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.awaited[key] = paths
}

func (h *hookTable) Complete() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.complete = true
}

// get returns the first hook of a key, nil for none.
func (h *hookTable) get(key string) *receiver.Hook {
	if all := h.all(key); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (h *hookTable) all(key string) []*receiver.Hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hooks[key]
}

// subscriptionTable is a SubscriptionTable that records the served subscriptions.
type subscriptionTable struct {
	mu     sync.Mutex
	served map[string]*subscribe.Subscription
	full   bool // only suspended ones are taken
}

func (s *subscriptionTable) Put(sub *subscribe.Subscription) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full && !sub.Suspended {
		return subscribe.ErrNamespaceFull
	}
	s.served[sub.Namespace+"/"+sub.Name] = sub
	return subscribe.NewSubscriptions().Put(sub)
}

func (s *subscriptionTable) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.served, namespace+"/"+name)
}

// get returns the subscription of a Receiver of team-a, nil for none.
func (s *subscriptionTable) get(name string) *subscribe.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served["team-a/"+name]
}

// feed is a HealthFeed that tests write to. An error sent to broken ends its watch.
type feed struct {
	broken chan error

	mu     sync.Mutex
	values map[string][]byte
	handle func(string, []byte)
}

func (f *feed) Watch(ctx context.Context, handle func(string, []byte)) error {
	f.mu.Lock()
	f.handle = handle
	for k, v := range f.values {
		handle(k, v)
	}
	f.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-f.broken:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handle = nil
	return err
}

func (f *feed) put(key, value string) { _ = f.Put(context.Background(), key, []byte(value)) }

func (f *feed) Get(_ context.Context, key string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[key], nil
}

func (f *feed) Put(_ context.Context, key string, value []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if value == nil {
		delete(f.values, key)
	} else {
		f.values[key] = value
	}
	if f.handle != nil {
		f.handle(key, value)
	}
	return nil
}

// nothingWatched is a watchers' cache without a kind.
type nothingWatched struct{}

func (nothingWatched) Pending(string) bool { return false }

func (nothingWatched) Select(string, event.Target) (names []string, watched bool) { return nil, false }

func (nothingWatched) Selects(string, event.Target, string) (selected, watched bool) {
	return false, false
}

func (nothingWatched) Objects(string, event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	return nil, false
}

// eventLog is an EventRecorder.
type eventLog struct {
	mu     sync.Mutex
	events []string
}

func (l *eventLog) Event(kind, namespace, name, uid, eventType, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprintf("%s %s/%s %s %s %s: %s", kind, namespace, name, uid, eventType, reason, message))
}

func (l *eventLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	slices.Sort(events)
	return events
}

// fakeEvents is a recorder.Sink over client-go's fake.
type fakeEvents struct{ core *fake.Clientset }

func (f fakeEvents) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	return f.core.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
}

func (f fakeEvents) Patch(ctx context.Context, e *corev1.Event, data []byte) (*corev1.Event, error) {
	return f.core.CoreV1().Events(e.Namespace).Patch(ctx, e.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}

// fakeSecrets is a secrets.Source over client-go's fake.
type fakeSecrets struct{ core *fake.Clientset }

func (f fakeSecrets) Get(ctx context.Context, k kube.Key, _ string) (*corev1.Secret, error) {
	return f.core.CoreV1().Secrets(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
}

func (f fakeSecrets) Watch(ctx context.Context, k kube.Key, version string, _ time.Duration) (secrets.Watch, error) {
	w, err := f.core.CoreV1().Secrets(k.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name).String(), ResourceVersion: version,
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, w.Stop)
	return fakeWatch{w}, nil
}

// fakeWatch is a secrets.Watch over client-go's.
type fakeWatch struct{ watch.Interface }

func (w fakeWatch) Next() (watch.Event, error) {
	e, ok := <-w.ResultChan()
	if !ok {
		return e, io.EOF
	}
	return e, nil
}

package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// fakeDiscovery serves kinds in versions.
type fakeDiscovery struct {
	mu     sync.Mutex
	served map[string][]string
	err    error
}

func (d *fakeDiscovery) serve(k *Kind, versions ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.served[k.Kind] = versions
}

func (d *fakeDiscovery) All(context.Context) (groups []apidiscovery.APIGroupDiscovery, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range kinds {
		group := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: k.Group}}
		for _, v := range d.served[k.Kind] {
			group.Versions = append(group.Versions, apidiscovery.APIVersionDiscovery{
				Version: v, Resources: []apidiscovery.APIResourceDiscovery{{
					Resource: k.Resource, ResponseKind: &metav1.GroupVersionKind{Kind: k.Kind}, Scope: apidiscovery.ScopeNamespace,
				}},
			})
		}
		groups = append(groups, group)
	}
	return groups, d.err
}

// fakeBus keeps events in memory, drops repeated IDs, and fails on request.
type fakeBus struct {
	mu       sync.Mutex
	events   []*event.Record
	stored   []time.Time // of events
	ids      map[string]bool
	follower func(*event.Record)
	// late reports that the follower gets no event before catchUp; behind are those that it has not got. With a lag it gets them that late.
	late   bool
	lag    time.Duration
	behind []*event.Record
	fail   bool
	// loseAnswers is how many events of watchers are stored but not confirmed.
	loseAnswers int
	// refusing reports that events of watchers are refused, as all were a moment ago.
	refusing bool
	// followPause is the time between two events of the past that a follower gets.
	followPause time.Duration
	// beforePublish is called before a watcher's event is published, beforeLast before the last event of an object is read.
	beforePublish, beforeLast func()
}

var errBus = errors.New("the bus is away")

func (b *fakeBus) PublishEvent(ctx context.Context, r *event.Record) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail || ctx.Err() != nil {
		return false, errBus
	}
	if b.ids[r.ID] {
		return true, nil
	}
	b.ids[r.ID] = true
	r.Seq = uint64(len(b.events) + 1)
	b.events, b.stored = append(b.events, r), append(b.stored, time.Now())
	switch {
	case b.late:
		b.behind = append(b.behind, headersOf(r))
	case b.follower != nil && (b.lag > 0 || len(b.behind) > 0):
		b.behind = append(b.behind, headersOf(r))
		time.AfterFunc(max(b.lag, time.Millisecond), b.catchUp)
	case b.follower != nil:
		b.follower(headersOf(r))
	}
	return false, nil
}

func (b *fakeBus) PublishEventAfter(ctx context.Context, r *event.Record, seq uint64) (bool, error) {
	if b.beforePublish != nil {
		b.beforePublish()
	}
	o := r.Event.InvolvedObject
	last, found, err := b.LastEvent(ctx, o.Namespace, o.Kind, o.Name)
	if err != nil {
		return false, err
	}
	if found && last.Seq != seq {
		return false, event.ErrOvertaken
	}
	if b.refuses() {
		return false, errBus
	}
	duplicate, err := b.PublishEvent(ctx, r)
	if err == nil && b.losesAnswer() {
		return false, errBus
	}
	return duplicate, err
}

// losesAnswer reports whether the answer to an event is lost.
func (b *fakeBus) losesAnswer() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loseAnswers == 0 {
		return false
	}
	b.loseAnswers--
	clear(b.ids) // the retry comes after the stream's duplicate window
	return true
}

// headersOf returns the parts of a record that a follower gets.
func headersOf(r *event.Record) *event.Record {
	h := *r
	h.Event = event.Event{InvolvedObject: r.Event.InvolvedObject, Severity: r.Event.Severity, Timestamp: r.Event.Timestamp, Message: r.Event.Message}
	if revision := r.Event.Revision(); revision != "" {
		h.Event.SetRevision(revision)
	}
	return &h
}

func (b *fakeBus) FollowEvents(ctx context.Context, from time.Time, h func(*event.Record), caughtUp func()) {
	b.mu.Lock()
	b.behind = nil
	for i := 0; i < len(b.events); i++ {
		if r := b.events[i]; !r.Accepted.Before(from) {
			h(headersOf(r))
			b.mu.Unlock()
			<-time.After(b.followPause)
			b.mu.Lock()
		}
	}
	b.follower = h
	b.mu.Unlock()
	caughtUp()
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follower = nil
}

func (b *fakeBus) LastEvent(_ context.Context, namespace, kind, name string) (*event.Record, bool, error) {
	if b.beforeLast != nil {
		b.beforeLast()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail {
		return nil, false, errBus
	}
	for _, v := range slices.Backward(b.events) {
		if o := v.Event.InvolvedObject; o.Namespace == namespace && o.Kind == kind && o.Name == name {
			return v, true, nil
		}
	}
	return nil, false, nil
}

// told lists the events that the watchers published, as "outcome name revision".
func (b *fakeBus) told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, r := range b.events {
		if r.Source == event.SourceWatch {
			list = append(list, strings.TrimSpace(fmt.Sprint(r.Outcome, " ", r.Event.InvolvedObject.Name, " ", r.Event.Revision())))
		}
	}
	return list
}

// mute stops all records to the follower.
func (b *fakeBus) mute() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follower = func(*event.Record) {}
}

func (b *fakeBus) setLate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = true
}

// catchUp gives the follower the oldest event that it has not got.
func (b *fakeBus) catchUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.behind) > 0 && b.follower != nil {
		b.follower(b.behind[0])
		b.behind = b.behind[1:]
	}
}

func (b *fakeBus) setRefusing(refusing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusing = refusing
}

func (b *fakeBus) refuses() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusing
}

func (b *fakeBus) setFail(fail bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

type fakeValue struct {
	value    []byte
	revision uint64
}

// fakeState is a key-value store in memory that fails on request.
type fakeState struct {
	mu       sync.Mutex
	values   map[string]fakeValue
	revision uint64
	fail     bool
	failKey  string // Put fails for it
	puts     int
	// loseAnswers is how many values are stored but not confirmed.
	loseAnswers int
	// slow, unless nil, is called before each read and write, which fails with its error.
	slow func() error
}

func (s *fakeState) Get(_ context.Context, key string) ([]byte, uint64, bool, error) {
	if err := s.delay(); err != nil {
		return nil, 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	return v.value, v.revision, ok, nil
}

func (s *fakeState) Put(ctx context.Context, key string, value []byte, revision uint64) error {
	if err := s.delay(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail || key == s.failKey || ctx.Err() != nil {
		return errBus
	}
	if s.values[key].revision != revision {
		return errors.New("another wrote it")
	}
	s.revision++
	s.puts++
	s.values[key] = fakeValue{value, s.revision}
	if s.loseAnswers > 0 {
		s.loseAnswers--
		return errBus
	}
	return nil
}

func (s *fakeState) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail {
		return errBus
	}
	delete(s.values, key)
	return nil
}

func (s *fakeState) All(_ context.Context, each func(string, []byte)) error {
	s.mu.Lock()
	values := maps.Clone(s.values)
	s.mu.Unlock()
	for key, v := range values {
		each(key, v.value)
	}
	return nil
}

func (s *fakeState) has(key string) bool {
	_, _, found, _ := s.Get(context.Background(), key)
	return found
}

func (s *fakeState) setFail(fail bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// fakeObjects implements Objects over client-go's fake. Its objects are decoded from JSON as those of an API server are.
type fakeObjects struct {
	client *dynamicfake.FakeDynamicClient
	// listing, unless nil, is called before each list, which waits for it as for an API server that is away.
	listing func(context.Context, *Kind)
	// expiring, unless nil, returns a channel that closes when the watches of now end, and the changes since are no longer available.
	expiring func() <-chan struct{}
	// hides, unless nil, reports that watches send nothing. One that has left out a change sends no other.
	hides func() bool
}

func (f fakeObjects) ListerWatcher(kind *Kind, resource schema.GroupVersionResource, namespace string) cache.ListerWatcher {
	client := f.client.Resource(resource).Namespace(namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if f.listing != nil {
				f.listing(ctx, kind)
			}
			list, err := client.List(ctx, o)
			if err != nil {
				return nil, err
			}
			body, err := list.MarshalJSON()
			if err != nil {
				return nil, err
			}
			return decodeList(kind, bytes.NewReader(body))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			decoded := watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				if u, ok := e.Object.(*unstructured.Unstructured); ok {
					e.Object = objectOf(kind, u)
				}
				return e, true
			})
			if f.expiring != nil {
				decoded = expire(decoded, f.expiring(), f.hides)
			}
			return decoded, nil
		},
	}, kube.ListFirst{})
}

func objectOf(kind *Kind, u *unstructured.Unstructured) *object {
	body, err := u.MarshalJSON()
	if err != nil {
		panic(err)
	}
	var d document
	if err := tolerate(json.Unmarshal(body, &d)); err != nil {
		panic(err)
	}
	return newObject(kind, &d)
}

// loseAnswer has the next value stored and not confirmed.
func (s *fakeState) loseAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseAnswers++
}

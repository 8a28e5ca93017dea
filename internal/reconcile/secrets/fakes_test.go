package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"notifier/internal/reconcile/kube"
)

// vault is a Source with the API server's semantics: one growing resource version, watches that start after a version and replay
// the later changes, and versions that are compacted away.
type vault struct {
	mu       sync.Mutex
	version  int
	secrets  map[kube.Key]*corev1.Secret
	history  []watch.Event
	oldest   int // versions before it are compacted away
	watchers map[*watch.RaceFreeFakeWatcher]kube.Key
	gets     []kube.Key
	watches  int
	// fail, if set, returns the error of Get.
	fail func(kube.Key) error
	// away makes every Watch fail as with no server at the address; tried counts those.
	away  bool
	tried int
	// behind makes a read from memory return no Secret.
	behind bool
	// late, if set, delays what Get reads until a receive from it succeeds.
	late chan struct{}
	// hold, if set, delays the return of Get until a receive from it succeeds.
	hold chan struct{}
	// mute has the Secrets whose watch is not answered.
	mute map[kube.Key]bool
	// timed has each watch end after the time that was asked for.
	timed bool
	// restored counts the calls of restore.
	restored int
}

func newVault() *vault {
	return &vault{secrets: map[kube.Key]*corev1.Secret{}, watchers: map[*watch.RaceFreeFakeWatcher]kube.Key{}}
}

func (v *vault) Get(ctx context.Context, k kube.Key, version string) (*corev1.Secret, error) {
	v.mu.Lock()
	late := v.late
	v.mu.Unlock()
	if late != nil {
		<-late
	}
	v.mu.Lock()
	v.gets = append(v.gets, k)
	s, fail, hold := v.secrets[k], v.fail, v.hold
	if version == "0" && v.behind {
		s = nil
	}
	v.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fail != nil {
		if err := fail(k); err != nil {
			return nil, err
		}
	}
	if s == nil {
		return nil, notFound(k.Name)
	}
	return s.DeepCopy(), nil
}

func notFound(name string) error {
	return apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

// toldBy is a Watch over client-go's kind of watch. It ends with ctx.
type toldBy struct{ watch.Interface }

func newToldBy(ctx context.Context, w watch.Interface) toldBy {
	context.AfterFunc(ctx, w.Stop)
	return toldBy{w}
}

func (w toldBy) Next() (watch.Event, error) {
	e, ok := <-w.ResultChan()
	if !ok {
		return e, io.EOF
	}
	return e, nil
}

func (v *vault) Watch(ctx context.Context, k kube.Key, version string, lasting time.Duration) (Watch, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mute[k] {
		v.mu.Unlock()
		<-ctx.Done()
		v.mu.Lock()
		return nil, ctx.Err()
	}
	if v.tried++; v.away {
		return nil, errors.New("connection refused")
	}
	v.watches++
	w := watch.NewRaceFreeFake()
	if version == "0" {
		if s := v.secrets[k]; s != nil {
			w.Add(s.DeepCopy())
		}
	} else {
		after, err := strconv.Atoi(version)
		if err != nil {
			return nil, err
		}
		if after < v.oldest {
			w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
			w.Stop()
			return newToldBy(ctx, w), nil
		}
		for _, e := range v.history {
			s := e.Object.(*corev1.Secret)
			if at, err := strconv.Atoi(s.ResourceVersion); err == nil && at > after && secretKey(s) == k {
				w.Action(e.Type, s.DeepCopy())
			}
		}
	}
	v.watchers[w] = k
	if v.timed {
		time.AfterFunc(lasting, w.Stop)
	}
	return newToldBy(ctx, w), nil
}

func secretKey(s *corev1.Secret) kube.Key { return kube.Key{Namespace: s.Namespace, Name: s.Name} }

// put creates or updates a Secret.
func (v *vault) put(k kube.Key, data map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version++
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: k.Namespace, Name: k.Name, ResourceVersion: strconv.Itoa(v.version),
	}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	kind := watch.Modified
	if v.secrets[k] == nil {
		kind = watch.Added
	}
	v.secrets[k] = s
	v.tell(kind, s)
}

func (v *vault) delete(k kube.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version++
	s := v.secrets[k].DeepCopy()
	s.ResourceVersion = strconv.Itoa(v.version)
	delete(v.secrets, k)
	v.tell(watch.Deleted, s)
}

func (v *vault) tell(kind watch.EventType, s *corev1.Secret) {
	v.history = append(v.history, watch.Event{Type: kind, Object: s})
	for w, k := range v.watchers {
		if k == secretKey(s) && !w.IsStopped() {
			w.Action(kind, s.DeepCopy())
		}
	}
}

// goAway ends all watches and refuses new ones. comeBack undoes that, as for a restarted API server: it lacks all earlier changes.
func (v *vault) goAway() {
	v.cut(true)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.away = true
}

func (v *vault) comeBack() {
	v.cut(true)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.away, v.tried, v.watches = false, 0, 0
}

// backup is the state of a vault at a time.
type backup struct {
	version int
	secrets map[kube.Key]*corev1.Secret
}

func (v *vault) backup() backup {
	v.mu.Lock()
	defer v.mu.Unlock()
	return backup{v.version, maps.Clone(v.secrets)}
}

// restore ends all watches, as the API servers are stopped for it, and brings back a backup with the versions of its time. Then they answer again.
func (v *vault) restore(b backup) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stop()
	v.version, v.secrets, v.oldest, v.history, v.away = b.version, maps.Clone(b.secrets), b.version, nil, false
	v.restored++
}

func (v *vault) restores() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.restored
}

// cut ends all watches, and forgets all earlier changes if compact.
func (v *vault) cut(compact bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stop()
	if compact {
		v.version++
		v.oldest, v.history = v.version, nil
	}
}

// stop ends all watches. The caller has the lock.
func (v *vault) stop() {
	for w := range v.watchers {
		w.Stop()
	}
	clear(v.watchers)
}

// open returns the number of watches that are not stopped.
func (v *vault) open() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for w := range v.watchers {
		if !w.IsStopped() {
			n++
		}
	}
	return n
}

func (v *vault) reads() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.gets)
}

// contentOfEvent describes an event of a watch.
func contentOfEvent(e watch.Event) string {
	s, ok := e.Object.(*corev1.Secret)
	if !ok {
		return fmt.Sprintf("%s %T", e.Type, e.Object)
	}
	return fmt.Sprintf("%s %s %s", e.Type, s.ResourceVersion, s.Data["token"])
}

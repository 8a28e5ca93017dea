package secrets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"notifier/internal/builtin"
	"notifier/internal/reconcile/kube"
)

// Source reads single Secrets. It has no method to list them, on purpose.
type Source interface {
	// Get reads a Secret: the newest state, or for the resource version "0" a state that the API server has in memory.
	Get(ctx context.Context, key kube.Key, resourceVersion string) (*corev1.Secret, error)
	// Watch follows one Secret from after a resource version. For "0" it begins with a recent state, sent as an addition if the Secret
	// exists. The watch ends after lasting, and when ctx ends.
	Watch(ctx context.Context, key kube.Key, resourceVersion string, lasting time.Duration) (Watch, error)
}

// Watch reads the changes of one Secret.
type Watch interface {
	// Next waits for the next change. It returns io.EOF when the watch is over.
	Next() (watch.Event, error)
	// Stop ends the watch, and a Next that waits.
	Stop()
}

// client is the Source over an API server.
type client struct {
	core rest.Interface
	// agent is set in each request: client-go would copy the request to add it.
	agent string
}

// errNoSecret replaces the error of a decoder, which may quote its input.
var errNoSecret = errors.New("the API server's answer is no secret")

// NewClient returns the Secrets of the API server that config names, without a rate limit: Options.QPS limits them.
func NewClient(config *rest.Config) (Source, error) {
	unlimited := rest.CopyConfig(config)
	unlimited.QPS, unlimited.RateLimiter = -1, nil
	unlimited.Wrap(func(next http.RoundTripper) http.RoundTripper { return &sharedHeaders{next: next} })
	core, err := builtin.NewClient(unlimited, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return client{core, cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())}, nil
}

// request returns a request for Secrets of a namespace.
func (c client) request(namespace string) *rest.Request {
	return c.core.Get().Namespace(namespace).Resource("secrets").SetHeader("User-Agent", c.agent)
}

func (c client) Get(ctx context.Context, key kube.Key, resourceVersion string) (*corev1.Secret, error) {
	answer := c.request(key.Namespace).Name(key.Name).
		VersionedParams(&metav1.GetOptions{ResourceVersion: resourceVersion}, builtin.Options).Do(ctx)
	body, err := answer.Raw()
	if err != nil {
		return nil, answer.Error() // Raw's error lacks the server's own words
	}
	object := &corev1.Secret{}
	if json.Unmarshal(body, object) != nil {
		return nil, errNoSecret
	}
	return object, nil
}

// Watch needs only the verb watch: the selector by name makes it a request about one object.
func (c client) Watch(ctx context.Context, key kube.Key, resourceVersion string, lasting time.Duration) (Watch, error) {
	life := int64(lasting / time.Second)
	body, err := c.request(key.Namespace).VersionedParams(&metav1.ListOptions{
		FieldSelector:       fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String(),
		ResourceVersion:     resourceVersion,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &life,
		Watch:               true,
	}, builtin.Options).MaxRetries(0).Stream(ctx) // Store.away retries
	if err != nil {
		return nil, err
	}
	return &stream{body: body}, nil
}

// sharedHeaders sends all requests with one header as long as theirs are equal, and drops the headers of the watches' answers. A watch
// keeps its request and its answer until it ends. With headers of their own, the token of the service account among them, thousands of
// watches would keep 2 KiB each.
type sharedHeaders struct {
	next http.RoundTripper

	mu   sync.Mutex
	last http.Header
}

func (s *sharedHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.WithContext(r.Context()) // a copy: the caller's request must stay unchanged
	s.mu.Lock()
	if !maps.EqualFunc(s.last, r.Header, slices.Equal) {
		s.last = r.Header
	}
	r.Header = s.last
	s.mu.Unlock()
	answer, err := s.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusOK && strings.Contains(r.URL.RawQuery, "watch=true") {
		answer.Header = http.Header{} // only a refusal's is read
	}
	return answer, err
}

// stream is a watch of one Secret. There are thousands of them, and each is idle for minutes. So it reads nothing ahead, needs no
// goroutine, and has no buffer between two events. client-go's watch costs 20 KiB more.
type stream struct {
	body io.ReadCloser
	// rest has the bytes that were read beyond the last event.
	rest []byte
}

// Next reads one event. It waits in a small frame, apart from the decoder's: the runtime then shrinks the goroutine's stack from 8 KiB to 4.
func (s *stream) Next() (watch.Event, error) {
	if len(s.rest) == 0 {
		first := make([]byte, 1) // no buffer before an event arrives
		if _, err := io.ReadFull(s.body, first); err != nil {
			return watch.Event{}, err
		}
		s.rest = first
	}
	return s.decode()
}

// decode reads the event that has begun.
//
//go:noinline
func (s *stream) decode() (watch.Event, error) {
	var sent struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	before := bytes.NewReader(s.rest)
	events := json.NewDecoder(io.MultiReader(before, s.body))
	if err := events.Decode(&sent); err != nil {
		return watch.Event{}, err
	}
	rest, err := io.ReadAll(io.MultiReader(events.Buffered(), before))
	if err != nil {
		return watch.Event{}, err
	}
	s.rest = bytes.Clone(bytes.TrimSpace(rest))
	var object runtime.Object = &corev1.Secret{}
	if sent.Type == watch.Error {
		object = &metav1.Status{}
	}
	if json.Unmarshal(sent.Object, object) != nil {
		return watch.Event{}, errNoSecret
	}
	return watch.Event{Type: sent.Type, Object: object}, nil
}

// Stop ends the watch.
func (s *stream) Stop() { _ = s.body.Close() }

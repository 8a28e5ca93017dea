package kube_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "notifier/api/v1"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

var typesOfReceivers = []string{"github", "gitlab", "quay"}

// changeOf is a change of an object, as watches send it.
type changeOf struct {
	what    string
	key     kube.Key
	version int
	state
}

// backupOfAPI is the state of the API server's store at a version.
type backupOfAPI struct {
	version int
	objects map[kube.Key]state
}

// randomAPI is an API server of Receivers, as a transport. Its store has one version, which grows. Lists are read from memory that lags, or from
// the store in pages. Watches send the changes after a version, unless they are compacted away. Requests fail at random.
type randomAPI struct {
	mu   sync.Mutex
	draw *rand.Rand
	backupOfAPI
	uids, restores int
	// lost is the version of the last change that was compacted away.
	lost int
	// states are those of the store since the last compaction, changes the changes between them.
	past    []backupOfAPI
	changes []changeOf
	// next is closed at each change, stop when all watches end.
	next, stop chan struct{}
	// pages has the rest of each list that was begun.
	pages map[string]backupOfAPI
	// failing is the share of the requests in a hundred that fail; away has all fail without an answer.
	failing, watches int
	away             bool
	// lacking says that the definition of the kind has no type.
	lacking bool
}

func newRandomAPI(seed uint64) *randomAPI {
	a := &randomAPI{
		draw: rand.New(rand.NewPCG(seed, 2)), backupOfAPI: backupOfAPI{1, map[kube.Key]state{}}, next: make(chan struct{}),
		stop: make(chan struct{}), pages: map[string]backupOfAPI{},
	}
	a.past = []backupOfAPI{a.copied()}
	return a
}

func (a *randomAPI) copied() backupOfAPI { return backupOfAPI{a.version, maps.Clone(a.objects)} }

// change makes, changes or deletes an object.
func (a *randomAPI) change() {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := kube.Key{Namespace: fmt.Sprint("team-", a.draw.IntN(3)), Name: fmt.Sprint("r", a.draw.IntN(4))}
	s, exists := a.objects[k]
	a.version += 1 + (a.restores-a.version-1)&3 // after a restore, no version is given a second time
	what := "MODIFIED"
	switch {
	case !exists:
		what, a.uids = "ADDED", a.uids+1
		s = state{uid: a.uids, kind: typesOfReceivers[0]}
	case a.draw.IntN(3) == 0:
		what = "DELETED"
	}
	s.version = a.version
	if what != "DELETED" {
		switch a.draw.IntN(3) {
		case 0:
			s.label = strconv.Itoa(a.draw.IntN(3))
		case 1:
			s.kind, s.bad = typesOfReceivers[a.draw.IntN(len(typesOfReceivers))], false
		default:
			s.kind, s.bad = "", a.draw.IntN(2) == 0
			if !s.bad {
				s.kind = typesOfReceivers[a.draw.IntN(len(typesOfReceivers))]
			}
		}
	}
	if a.objects[k] = s; what == "DELETED" {
		delete(a.objects, k)
	}
	a.changes = append(a.changes, changeOf{what, k, a.version, s})
	a.past = append(a.past, a.copied())
	a.wake()
}

func (a *randomAPI) wake() {
	close(a.next)
	a.next = make(chan struct{})
}

// compact forgets all changes, and the pages of lists.
func (a *randomAPI) compact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
}

func (a *randomAPI) forget() {
	if n := len(a.changes); n > 0 {
		a.lost = a.changes[n-1].version
	}
	a.changes, a.past = nil, []backupOfAPI{a.copied()}
	clear(a.pages)
}

// cut ends all watches.
func (a *randomAPI) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endWatches()
}

func (a *randomAPI) endWatches() {
	close(a.stop)
	a.stop = make(chan struct{})
}

func (a *randomAPI) goAway() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endWatches()
	a.away = true
}

func (a *randomAPI) backup() backupOfAPI {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.copied()
}

func (a *randomAPI) restore(b backupOfAPI) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.backupOfAPI, a.away = backupOfAPI{b.version, maps.Clone(b.objects)}, false
	a.restores++
	a.forget()
}

func (a *randomAPI) fail(share int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = share
}

// states returns the objects as they are.
func (a *randomAPI) states() map[kube.Key]state {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.copied().objects
	for k, s := range of {
		of[k] = a.shown(s)
	}
	return of
}

func (a *randomAPI) open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watches
}

// define replaces the definition of the kind by one that has the type of a Receiver, or lacks it. No object gets another version.
func (a *randomAPI) define() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endWatches()
	a.lacking = !a.lacking
	a.version += 4
	a.forget()
}

// shown returns an object as its definition has it. The caller has the lock.
func (a *randomAPI) shown(s state) state {
	if a.lacking {
		s.kind = ""
	}
	return s
}

// one reports true once in n, never while nothing fails. The caller has the lock.
func (a *randomAPI) one(n int) bool { return a.failing > 0 && a.draw.IntN(n) == 0 }

// RoundTrip implements http.RoundTripper.
func (a *randomAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	late := time.Duration(a.draw.Int64N(int64([]time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second}[a.draw.IntN(3)])))
	a.mu.Unlock()
	if err := fair.Sleep(r.Context(), late); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return nil, errors.New("connection refused")
	}
	if a.draw.IntN(100) < a.failing {
		code := []int{0, 404, 429, 500, 503}[a.draw.IntN(5)]
		if code == 0 {
			return nil, errors.New("connection reset")
		}
		return refusal(code, "", ""), nil
	}
	query := r.URL.Query()
	if query.Get("watch") != "" {
		return a.watch(r.Context(), query), nil
	}
	return a.list(query), nil
}

func answerOf(code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1}
}

func statusOf(code int, reason, cause string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"details":{"causes":[{"reason":%q}]}}`,
		reason, code, cause)
}

func refusal(code int, reason, cause string) *http.Response {
	return answerOf(code, io.NopCloser(strings.NewReader(statusOf(code, reason, cause))))
}

// list answers a list. The caller has the lock.
func (a *randomAPI) list(query url.Values) *http.Response {
	from, token, of := query.Get("resourceVersion"), query.Get("continue"), a.copied()
	version, _ := strconv.Atoi(from)
	limit, _ := strconv.Atoi(query.Get("limit"))
	switch {
	case token != "":
		rest, ok := a.pages[token]
		delete(a.pages, token)
		if !ok || a.one(3) {
			return refusal(http.StatusGone, "Expired", "")
		}
		of = rest
	case version > a.version:
		return refusal(http.StatusGatewayTimeout, "Timeout", "ResourceVersionTooLarge")
	case from == "0":
		of, limit = a.past[a.draw.IntN(len(a.past))], 0
	}
	keys := slices.SortedFunc(maps.Keys(of.objects), func(x, y kube.Key) int { return cmp.Compare(x.String(), y.String()) })
	page, next := keys, ""
	if limit > 0 && len(keys) > 3 {
		page, next = keys[:3], fmt.Sprint("page-", a.draw.Uint64())
		rest := backupOfAPI{of.version, maps.Clone(of.objects)}
		for _, k := range page {
			delete(rest.objects, k)
		}
		a.pages[next] = rest
	}
	items := make([]string, len(page))
	for i, k := range page {
		items[i] = textOf(k, a.shown(of.objects[k]))
	}
	text := fmt.Sprintf(`{"kind":"ReceiverList","apiVersion":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`,
		v1.GroupVersion, of.version, next, strings.Join(items, ","))
	if a.one(3) { // it is cut, mostly behind an object
		text = text[:strings.LastIndexByte(text[:a.draw.IntN(len(text))], '}')+1]
	}
	return answerOf(http.StatusOK, io.NopCloser(strings.NewReader(text)))
}

func textOf(k kube.Key, s state) string {
	interval := `"10m"`
	if s.bad {
		interval = "7"
	}
	return fmt.Sprintf(`{"kind":"Receiver","apiVersion":%q,"metadata":{"namespace":%q,"name":%q,"uid":"%d","resourceVersion":"%d",
		"labels":{"of":%q}},"spec":{"type":%q,"interval":%s}}`, v1.GroupVersion, k.Namespace, k.Name, s.uid, s.version, s.label, s.kind, interval)
}

// stream is the body of a watch.
type stream struct {
	*io.PipeReader
	ended func()
}

func (s stream) Close() error {
	s.ended()
	return s.PipeReader.Close()
}

// watch answers a watch. The caller has the lock.
func (a *randomAPI) watch(ctx context.Context, query url.Values) *http.Response {
	after, _ := strconv.Atoi(query.Get("resourceVersion"))
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	if after < a.past[0].version {
		if a.draw.IntN(2) == 0 {
			return refusal(http.StatusGone, "Expired", "")
		}
		return answerOf(http.StatusOK, io.NopCloser(strings.NewReader(`{"type":"ERROR","object":`+statusOf(410, "Expired", "")+"}")))
	}
	ctx, end := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	r, w := io.Pipe()
	stop := a.stop
	a.watches++
	go func() {
		defer end()
		a.send(ctx, w, after, stop)
		_ = w.Close()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.watches--
	}()
	return answerOf(http.StatusOK, stream{r, end})
}

// send writes the changes after a version until the watch ends.
func (a *randomAPI) send(ctx context.Context, w io.Writer, after int, stop chan struct{}) {
	for {
		a.mu.Lock()
		next, late := a.next, time.Duration(a.draw.IntN(300))*time.Millisecond
		var text bytes.Buffer
		if a.stop != stop || after < a.past[0].version && a.lost > after {
			a.mu.Unlock()
			return // the real one keeps the changes for such a watch, or ends it
		}
		for _, c := range a.changes {
			if c.version > after {
				after = c.version
				fmt.Fprintf(&text, `{"type":%q,"object":%s}`, c.what, textOf(c.key, a.shown(c.state)))
			}
		}
		if a.draw.IntN(3) == 0 && a.version >= after {
			after = a.version
			fmt.Fprintf(&text, `{"type":"BOOKMARK","object":{"kind":"Receiver","apiVersion":%q,"metadata":{"resourceVersion":"%d"}}}`,
				v1.GroupVersion, a.version)
		}
		cut := text.Len() > 0 && a.one(10)
		if cut {
			text.Truncate(a.draw.IntN(text.Len()))
		}
		a.mu.Unlock()
		if fair.Sleep(ctx, late) != nil {
			return
		}
		if _, err := w.Write(text.Bytes()); err != nil || cut {
			return
		}
		select {
		case <-next:
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

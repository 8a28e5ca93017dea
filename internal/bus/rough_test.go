package bus

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/bus/embedded"
	"notifier/internal/fair"
)

// rough is a server with EVENTS and the worker's bucket. At random it is late, refuses, and loses its connection, until it is calm.
type rough struct {
	t       testing.TB
	created time.Time
	begin   chan struct{} // has a value when there may be a publish to process

	mu       sync.Mutex
	rng      *rand.Rand
	calm     bool
	down     bool
	changed  chan struct{} // closed, and made anew, when a message is stored or the connection is lost
	queue    []*roughPublish
	pending  map[*roughPublish]struct{}
	log      []*roughMsg // the message of sequence s is at s-1, nil if it was removed
	ids      map[string]*roughMsg
	synced   uint64
	faithful bool // no connection and no answer is lost
	remote   bool // it is no embedded server: it knows the IDs, and syncs what it stores
	losses   int  // of the connection, and of answers
	values   map[string][]byte
	revs     map[string]uint64
	rev      uint64
	wrote    func(key string, value []byte) // called with the lock held
}

// roughPublish is a publish on its way to the server.
type roughPublish struct {
	lateFuture
	msg *roughMsg
}

// answer ends a publish unless it has ended. The caller holds the lock.
func (s *rough) answer(p *roughPublish, ack *jetstream.PubAck, err error) {
	if _, open := s.pending[p]; !open {
		return
	}
	delete(s.pending, p)
	if err != nil {
		p.err <- err
		return
	}
	p.ok <- ack
}

// roughMsg is a message of EVENTS.
type roughMsg struct {
	jetstream.Msg
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
	at      time.Time
	left    uint64 // how many messages were after it as it was read
	number  uint64 // of those that its consumer has read
}

func (m *roughMsg) Subject() string      { return m.subject }
func (m *roughMsg) Headers() nats.Header { return m.header }
func (m *roughMsg) Data() []byte         { return m.data }
func (m *roughMsg) id() string           { return m.header.Get(nats.MsgIdHdr) }
func (m *roughMsg) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: m.seq, Consumer: m.number}, Timestamp: m.at, NumPending: m.left}, nil
}

func newRough(t testing.TB, seed uint64) *rough {
	s := &rough{
		t: t, created: time.Now(), begin: make(chan struct{}, 1), rng: rand.New(rand.NewPCG(seed, 0)), faithful: seed%2 == 0, changed: make(chan struct{}),
		remote: seed/4%2 == 1, pending: map[*roughPublish]struct{}{}, ids: map[string]*roughMsg{}, values: map[string][]byte{}, revs: map[string]uint64{},
		wrote: func(string, []byte) {},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.process(ctx) })
	running.Go(func() { s.cut(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// bus returns a bus of the server, as if it was embedded unless it is remote.
func (s *rough) bus() *Bus {
	b := &Bus{
		log: slog.New(slog.DiscardHandler), opts: Options{DuplicateWindow: time.Hour, Budgets: defaultBudgets()},
		embedded: &embedded.Server{}, nc: &nats.Conn{}, js: roughJS{s: s},
		streams: map[string]jetstream.Stream{streamEvents: roughEvents{s: s}},
		buckets: map[string]jetstream.KeyValue{bucketWorker: roughBucket{s: s}},
		recent:  newRecent(), backlogged: newBacklogged(), duplicates: newDuplicates(time.Hour), progress: newProgress(),
		poisoning: defaultPoisoning, ending: make(chan struct{}), sync: s.sync,
	}
	if s.remote {
		b.embedded, b.duplicates, b.sync = nil, nil, nil
	}
	b.crashes = &crashes{limits: b.poisoning}
	var err error
	b.metrics, err = newMetrics(prometheus.NewRegistry(), func() bool { return true })
	must(s.t, err)
	b.stats = newStats(b)
	b.events = newEventCommitter(b)
	return b
}

// refresh does, until ctx ends, what stats.refresh does for the readers.
func (s *rough) refresh(ctx context.Context, b *Bus) {
	for fair.Sleep(ctx, statsInterval) == nil {
		if info, err := b.streams[streamEvents].Info(ctx); err == nil && b.durableEvents(ctx, info.State.LastSeq) == nil {
			b.recent.note(info.State.LastSeq)
		}
	}
}

func (s *rough) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// pause returns how long a step of the server takes: seldom seconds.
func (s *rough) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := []time.Duration{time.Microsecond, time.Millisecond, 100 * time.Millisecond, 10 * time.Second}; !s.calm {
		switch n := s.rng.IntN(100); {
		case n == 0:
			return time.Duration(s.rng.Int64N(int64(most[3])))
		case n < 4:
			return time.Duration(s.rng.Int64N(int64(most[2])))
		default:
			return time.Duration(s.rng.Int64N(int64(most[n%2])))
		}
	}
	return 0
}

// chance reports true once in n times, never when the server is calm.
func (s *rough) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.calm && s.rng.IntN(n) == 0
}

func (s *rough) calmDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm, s.down = true, false
}

// remove removes some messages of the stream now and then.
func (s *rough) remove(ctx context.Context) {
	for fair.Sleep(ctx, time.Duration(s.intN(int(10*time.Second)))) == nil {
		s.mu.Lock()
		if n := len(s.log); n > 0 && !s.calm {
			first := s.rng.IntN(n)
			clear(s.log[first:min(n, first+1+s.rng.IntN(10))])
		}
		s.mu.Unlock()
	}
}

func pass(d time.Duration) { <-time.After(d) }

// cut loses the connection now and then.
func (s *rough) cut(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Duration(s.intN(int(20 * time.Second)))):
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		if s.calm || s.faithful {
			s.mu.Unlock()
			return
		}
		s.down = true
		s.losses++
		s.queue = s.queue[:s.rng.IntN(len(s.queue)+1)] // those had reached the server
		for p := range s.pending {
			s.answer(p, nil, nats.ErrDisconnected)
		}
		s.wake()
		s.mu.Unlock()
		pass(time.Duration(s.intN(int(time.Second))))
		s.mu.Lock()
		s.down = false
		s.wake()
		s.mu.Unlock()
	}
}

// wake wakes all that wait for a change. The caller holds the lock.
func (s *rough) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// process stores the messages that arrive, in their order.
func (s *rough) process(ctx context.Context) {
	for {
		s.mu.Lock()
		var p *roughPublish
		if len(s.queue) > 0 {
			p, s.queue = s.queue[0], s.queue[1:]
		}
		s.mu.Unlock()
		if p == nil {
			select {
			case <-s.begin:
				continue
			case <-ctx.Done():
				return
			}
		}
		pass(s.pause())
		refused := s.chance(30)
		s.mu.Lock()
		ack, err := s.store(p.msg, refused)
		s.mu.Unlock()
		late := s.pause()
		if !s.faithful && s.chance(100) {
			late = lateAnswer // the answer is lost
		}
		time.AfterFunc(late, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.answer(p, ack, err)
		})
	}
}

// store stores a message unless it is a duplicate or refused. The caller holds the lock.
func (s *rough) store(m *roughMsg, refused bool) (*jetstream.PubAck, error) {
	if old := s.ids[m.id()]; old != nil && (s.remote || time.Since(old.at) < serverDuplicates) {
		return &jetstream.PubAck{Stream: streamEvents, Sequence: old.seq, Duplicate: true}, nil
	}
	if want := m.header.Get(jetstream.ExpectedLastSubjSeqHeader); want != "" && want != strconv.FormatUint(s.last(m.subject), 10) {
		return nil, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
	}
	if refused {
		return nil, &jetstream.APIError{ErrorCode: codeInsufficientResources}
	}
	m.seq, m.at = uint64(len(s.log)+1), time.Now()
	s.log, s.ids[m.id()] = append(s.log, m), m
	if s.remote {
		s.synced = m.seq
	}
	s.wake()
	return &jetstream.PubAck{Stream: streamEvents, Sequence: m.seq}, nil
}

// last returns the last sequence of a subject. The caller holds the lock.
func (s *rough) last(subject string) uint64 {
	for _, m := range slices.Backward(s.log) {
		if m != nil && m.subject == subject {
			return m.seq
		}
	}
	return 0
}

// sync takes a moment to sync all that is stored.
func (s *rough) sync(ctx context.Context, _ string) error {
	s.mu.Lock()
	seq := uint64(len(s.log))
	s.mu.Unlock()
	synced := make(chan struct{})
	time.AfterFunc(s.pause(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.synced = max(s.synced, seq)
		close(synced)
	})
	select {
	case <-synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// request is a request and its answer, either of which may be lost.
func (s *rough) request(ctx context.Context, do func() error) error {
	pass(min(s.pause(), 2*apiTimeout))
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down || ctx.Err() != nil || s.chance(50) {
		return nats.ErrTimeout
	}
	s.mu.Lock()
	err := do()
	s.mu.Unlock()
	if s.chance(50) {
		return nats.ErrTimeout
	}
	return err
}

// roughJS publishes.
type roughJS struct {
	jetstream.JetStream
	s *rough
}

func (j roughJS) PublishMsgAsync(m *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	s := j.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, nats.ErrReconnectBufExceeded
	}
	header := nats.Header{}
	for name, values := range m.Header {
		header[name] = append([]string(nil), values...)
	}
	p := &roughPublish{
		lateFuture: lateFuture{ok: make(chan *jetstream.PubAck, 1), err: make(chan error, 1)},
		msg:        &roughMsg{subject: m.Subject, header: header, data: append([]byte(nil), m.Data...)},
	}
	s.queue, s.pending[p] = append(s.queue, p), struct{}{}
	time.AfterFunc(lateAnswer, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, open := s.pending[p]; open {
			s.losses++
			s.answer(p, nil, jetstream.ErrAsyncPublishTimeout)
		}
	})
	select {
	case s.begin <- struct{}{}:
	default:
	}
	return p, nil
}

// stored returns the messages of EVENTS by ID, in their order.
func (s *rough) stored() map[string][]*roughMsg {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]*roughMsg{}
	for _, m := range s.log {
		if m != nil {
			out[m.id()] = append(out[m.id()], m)
		}
	}
	return out
}

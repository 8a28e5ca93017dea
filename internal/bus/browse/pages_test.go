package browse

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event/view"
)

// FuzzAListHasEachItemOfItsNamespaceOnce reads a list of three streams to its end, by pages of any limit and budget, while messages are
// published and removed. Fails when an item is left out or listed twice, when one of another namespace or time is listed or one after an
// older one, or when a page ends where it began.
func FuzzAListHasEachItemOfItsNamespaceOnce(f *testing.F) {
	nc := newServer(f, true)
	for _, seed := range []uint64{0, 3, 6, 7, 8, 9, 17, 18} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { playPages(t, nc, seed) })
}

// paged has the streams of a list and the items that it may have.
type paged struct {
	t       *testing.T
	js      jetstream.JetStream
	rng     *rand.Rand
	streams []jetstream.Stream
	next    int
	own     map[string]*pagedItem // of the own namespace
	last    *pagedItem            // listed
}

// pagedItem is an item of the list, which is listed with its message's time.
type pagedItem struct {
	id, provider string
	at           time.Time
	stream       int
	seq          uint64
	removed      bool
}

func playPages(t *testing.T, nc *nats.Conn, seed uint64) {
	js, err := jetstream.New(nc)
	must(t, err)
	p := &paged{t: t, js: js, rng: rand.New(rand.NewPCG(seed, 0)), own: map[string]*pagedItem{}, last: &pagedItem{stream: -1, at: time.Now().Add(time.Hour)}}
	for i := range 3 {
		name := fmt.Sprint("S", i)
		_ = js.DeleteStream(t.Context(), name)
		s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.MemoryStorage, AllowDirect: p.rng.IntN(3) > 0,
		})
		must(t, err)
		p.streams = append(p.streams, s)
	}
	for range p.rng.IntN(30) {
		p.publish()
	}
	for range p.rng.IntN(5) {
		p.remove()
	}
	p.read(nc)
}

// publish publishes messages of one namespace to one stream.
func (p *paged) publish() {
	stream, namespace := p.rng.IntN(len(p.streams)), []string{"own", "own", "other"}[p.rng.IntN(3)]
	n, size := 1+p.rng.IntN(1<<p.rng.IntN(8)), 1<<p.rng.IntN(10)
	if namespace == "other" {
		n *= 1 + p.rng.IntN(8)
	}
	if p.rng.IntN(25) == 0 {
		n, size = 2+p.rng.IntN(2), 6<<20
	}
	for range n {
		provider := fmt.Sprint("p", p.rng.IntN(2))
		var items []*pagedItem
		body := strings.Repeat("x", p.rng.IntN(size))
		for range p.rng.IntN(6) {
			p.next++
			items = append(items, &pagedItem{id: fmt.Sprint(p.next), provider: provider, stream: stream})
			body += " " + fmt.Sprint(p.next)
		}
		ack, err := p.js.Publish(p.t.Context(), fmt.Sprintf("S%d.%s.%s", stream, namespace, provider), []byte(body))
		must(p.t, err)
		if namespace != "own" || len(items) == 0 {
			continue
		}
		m, err := p.streams[stream].GetMsg(p.t.Context(), ack.Sequence)
		must(p.t, err)
		for _, item := range items {
			item.seq, item.at = ack.Sequence, m.Time
			p.own[item.id] = item
		}
	}
}

// remove removes a message, or the oldest of a stream.
func (p *paged) remove() {
	stream := p.rng.IntN(len(p.streams))
	s := p.streams[stream]
	info, err := s.Info(p.t.Context())
	must(p.t, err)
	seq := 1 + p.rng.Uint64N(info.State.LastSeq+1)
	if p.last.stream == stream && p.rng.IntN(2) == 0 {
		seq = p.last.seq
	}
	only := p.rng.IntN(3) > 0
	if only {
		_ = s.DeleteMsg(p.t.Context(), seq) // it may be gone
	} else {
		must(p.t, s.Purge(p.t.Context(), jetstream.WithPurgeSequence(seq)))
	}
	for _, item := range p.own {
		item.removed = item.removed || item.stream == stream && (item.seq == seq && only || item.seq < seq && !only)
	}
}

// list returns the list, of one Provider unless that is empty.
func (p *paged) list(nc *nats.Conn, q view.Query) *List[*pagedItem] {
	list := &List[*pagedItem]{
		Name: "list", ID: func(i *pagedItem) string { return i.id }, Time: func(i *pagedItem) time.Time { return i.at },
		Take: func(i *pagedItem) bool { return q.Provider == "" || q.Provider == i.provider },
	}
	for i, s := range p.streams {
		name := fmt.Sprint("S", i)
		filter := name + ".own." + q.Provider
		if q.Provider == "" {
			filter += ">"
		}
		list.Sources = append(list.Sources, &Source[*pagedItem]{
			Walker: Walker{Stream: Stream{s, nc}, Filter: filter, Match: func(subject string) bool { return strings.HasPrefix(subject, name+".own.") }},
			Decode: func(m *jetstream.RawStreamMsg) (items []*pagedItem) {
				for id := range strings.FieldsSeq(strings.TrimLeft(string(m.Data), "x")) {
					item := p.own[id]
					if item == nil || item.seq != m.Sequence || item.stream != i {
						p.t.Fatalf("item %s of %s is read", id, m.Subject)
					}
					items = append(items, item)
				}
				return items
			},
		})
	}
	return list
}

// time returns no time, or that of an item.
func (p *paged) time() time.Time {
	if p.rng.IntN(2) == 0 || p.next == 0 {
		return time.Time{}
	}
	item := p.own[fmt.Sprint(1+p.rng.IntN(p.next))]
	if item == nil {
		return time.Time{}
	}
	return item.at
}

// read reads the list to its end.
func (p *paged) read(nc *nats.Conn) {
	q := view.Query{Provider: []string{"", "", "p1"}[p.rng.IntN(3)], Since: p.time(), Until: p.time()}
	selects := func(i *pagedItem) bool {
		return (q.Provider == "" || q.Provider == i.provider) &&
			(q.Since.IsZero() || !i.at.Before(q.Since)) && (q.Until.IsZero() || i.at.Before(q.Until))
	}
	began, listed := slices.Collect(maps.Values(p.own)), map[*pagedItem]bool{}
	for n := 0; n == 0 || q.Cursor != ""; n++ {
		q.Limit = 1 + p.rng.IntN(40)
		page, err := p.list(nc, q).page(p.t.Context(), q, &Budget{
			Messages: p.rng.IntN(1000), Bytes: p.rng.IntN(1 << (10 + p.rng.IntN(14))), Requests: p.rng.IntN(100), Until: time.Now().Add(time.Minute),
		})
		must(p.t, err)
		for _, i := range page.Items {
			if !selects(i) || listed[i] || i.at.After(p.last.at) {
				p.t.Errorf("page %d has %+v after %+v; listed before: %t", n, i, p.last, listed[i])
			}
			p.last, listed[i] = i, true
		}
		if q.Cursor != "" && q.Cursor == page.Next {
			p.t.Fatalf("page %d ends where it began", n)
		}
		q.Cursor = page.Next
		if p.rng.IntN(4) == 0 {
			p.publish()
		}
		if p.rng.IntN(3) == 0 {
			p.remove()
		}
	}
	for _, i := range began {
		if selects(i) && !i.removed && !listed[i] {
			p.t.Errorf("%+v is left out", i)
		}
	}
}

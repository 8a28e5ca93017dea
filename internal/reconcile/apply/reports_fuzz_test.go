package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzTheReportOfAReceiverIsTheWorkers has two replicas be the worker in turns, each with refusals of its own, while reports are late, fail
// and lose their answers. A replica that has been replaced may still store a report. In the end the stored report of each Receiver has what
// the worker knows, and no replica keeps more.
func FuzzTheReportOfAReceiverIsTheWorkers(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playReports(t, seed) })
	})
}

// lateReports are reports that are stored late, or not, or without an answer until they are cured. Watches are late as well, and end.
type lateReports struct {
	mu      sync.Mutex
	draws   *rand.Rand
	cured   bool
	values  map[string][]byte
	watches []*lateWatch
}

type lateWatch struct {
	changes []lateChange
	more    chan struct{}
}

type lateChange struct {
	key   string
	value []byte
}

func (l *lateReports) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cured {
		return n
	}
	return l.draws.IntN(n)
}

func (l *lateReports) Put(ctx context.Context, key string, value []byte) error {
	if l.draw(6) == 0 {
		return errors.New("the bus is away")
	}
	if l.draw(4) == 0 {
		<-time.After(time.Duration(l.draw(3000)) * time.Millisecond)
	}
	<-time.After(time.Millisecond)
	l.mu.Lock()
	l.values[key] = bytes.Clone(value) // nil for a while, as the mark of a deleted key
	for _, w := range l.watches {
		w.changes = append(w.changes, lateChange{key, bytes.Clone(value)})
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
	l.mu.Unlock()
	if l.draw(6) == 0 {
		return errors.New("no answer")
	}
	return nil
}

func (l *lateReports) Watch(ctx context.Context, h func(string, []byte)) error {
	w := &lateWatch{more: make(chan struct{}, 1)}
	l.mu.Lock()
	for key, value := range l.values {
		w.changes = append(w.changes, lateChange{key, value})
	}
	l.watches = append(l.watches, w)
	l.mu.Unlock()
	w.more <- struct{}{}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.watches = slices.DeleteFunc(l.watches, func(other *lateWatch) bool { return other == w })
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.more:
		}
		if l.draw(3) == 0 {
			<-time.After(time.Duration(l.draw(2000)) * time.Millisecond)
		}
		l.mu.Lock()
		changes := w.changes
		w.changes = nil
		l.mu.Unlock()
		for _, c := range changes {
			h(c.key, c.value)
		}
		if l.draw(8) == 0 {
			return errors.New("the watch has ended")
		}
	}
}

// reporters are two replicas and the Receivers that they report on.
type reporters struct {
	t         *testing.T
	draws     *rand.Rand
	stored    *lateReports
	replicas  []*refusals
	worker    *refusals
	receivers []Receiver
}

func playReports(t *testing.T, seed uint64) {
	p := &reporters{
		t: t, draws: rand.New(rand.NewPCG(seed, 5)),
		stored: &lateReports{draws: rand.New(rand.NewPCG(seed, 6)), values: map[string][]byte{}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range 2 {
		var b *refusals
		b = newRefusals(p.stored, func() bool { return p.worker == b }, slog.New(slog.DiscardHandler))
		p.replicas = append(p.replicas, b)
		running.Go(func() { b.run(ctx) })
	}
	p.worker = p.replicas[0]
	for _, name := range []string{"a", "b", "c"} {
		p.receivers = append(p.receivers, Receiver{
			Namespace: "team", Name: name, UID: "uid-" + name, ServiceAccount: "deployer", Targets: []event.Target{repo("app"), repo("web")},
		})
	}
	for range 60 {
		pass(time.Duration(p.draws.Int64N(int64([]time.Duration{time.Millisecond, time.Second, 5 * time.Second}[p.draws.IntN(3)]))))
		p.step()
	}
	p.stored.mu.Lock()
	p.stored.cured = true
	p.stored.mu.Unlock()
	pass(time.Minute)
	p.check()
}

// step has the worker learn something, or another replica become the worker.
func (p *reporters) step() {
	r, d := ownersAny(p.draws, p.receivers), Denied{
		ServiceAccount: "deployer", Kind: "GitRepository", Resource: "gitrepositories", Object: ownersAny(p.draws, []string{"app", "web"}),
		Message: fmt.Sprint("message ", p.draws.IntN(3)),
	}
	switch p.draws.IntN(8) {
	case 0, 1, 2:
		p.worker.deny(r, d)
	case 3:
		p.worker.allow("team", d.ServiceAccount, map[string]bool{r.Name: true}, d.Resource, object{kind: d.Kind, name: d.Object})
	case 4:
		d.Reviewed = true
		p.worker.reviewed(r, []Denied{d}[:p.draws.IntN(2)], map[string]bool{})
	case 5:
		p.worker.removed(r, d.Kind, d.Object)
	case 6:
		p.worker.resolved(r, r.Targets[0])
	case 7:
		p.worker.disown()
		p.worker = ownersAny(p.draws, p.replicas)
	}
}

func (p *reporters) check() {
	for _, r := range p.receivers {
		var stored Health
		if value := p.stored.values[healthPrefix+r.Namespace+"/"+r.Name]; value != nil {
			if err := json.Unmarshal(value, &stored); err != nil {
				p.t.Fatal(err)
			}
		}
		for i, b := range p.replicas {
			if known := b.of(r); !slices.Equal(known, stored.Denied) {
				p.t.Errorf("%s: replica %d (the worker: %t) knows\n%+v\nand\n%+v\nis stored", r.Name, i, b == p.worker, known, stored.Denied)
			}
		}
	}
	for _, b := range p.replicas {
		if n := len(b.changed) + b.queue.Len(); n > 0 {
			p.t.Errorf("%d reports are to be made", n)
		}
	}
}

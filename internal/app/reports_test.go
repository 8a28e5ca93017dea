package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bucket is a bus that may be down and may hang.
type bucket struct {
	mu     sync.Mutex
	down   bool
	hangs  bool
	values map[string]string
	tries  int
}

func (b *bucket) put(ctx context.Context, key string, value []byte) error {
	b.mu.Lock()
	b.tries++
	down, hangs := b.down, b.hangs
	b.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case down:
		return errors.New("no quorum")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[key] = string(value)
	return nil
}

func (b *bucket) set(down, hangs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down, b.hangs = down, hangs
}

func (b *bucket) expect(t *testing.T, when string, want map[string]string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.values); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// playReports runs healthReports over a bucket in a synctest bubble. stop ends it and waits for the end.
func playReports(t *testing.T, test func(t *testing.T, r *healthReports, b *bucket, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		b := &bucket{values: map[string]string{}}
		r := newHealthReports(b.put, discard)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		defer stop()
		test(t, r, b, stop)
	})
}

func say(r *healthReports, key, value string) { r.Report(key, []byte(value)) }

func pass(d time.Duration) {
	<-time.After(d) // in the bubble of the test: no time passes outside
	synctest.Wait()
}

// Fails when a report that failed is dropped, when it replaces a newer one, and when others are lost with it.
func TestAHealthReportThatFailedIsRepeated(t *testing.T) {
	playReports(t, func(t *testing.T, r *healthReports, b *bucket, _ func()) {
		b.set(true, false)
		say(r, "Provider/a/chat", "failing")
		say(r, "Alert/a/all", "ok")
		pass(10 * time.Second)
		say(r, "Provider/a/chat", "ok")
		pass(10 * time.Second)
		b.expect(t, "while the bus is down", map[string]string{})
		if b.tries > 22 {
			t.Errorf("%d tries in 20 s", b.tries)
		}
		b.set(false, false)
		pass(reportPause)
		b.expect(t, "afterwards", map[string]string{"Provider/a/chat": "ok", "Alert/a/all": "ok"})
		tries := b.tries
		pass(time.Hour)
		if b.tries != tries {
			t.Errorf("%d reports without news", b.tries-tries)
		}
	})
}

// Fails when whoever reports waits for the bus, and when one report hangs for ever.
func TestNobodyWaitsForAHealthReport(t *testing.T) {
	playReports(t, func(t *testing.T, r *healthReports, b *bucket, _ func()) {
		b.set(false, true)
		begin := time.Now()
		for range 100 {
			say(r, "Provider/a/chat", "failing")
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("waited %s", took)
		}
		pass(reportTimeout / 2)
		say(r, "Provider/a/chat", "ok") // while the first hangs
		b.set(false, false)
		pass(reportTimeout)
		b.expect(t, "once it answers", map[string]string{"Provider/a/chat": "ok"})
	})
}

// Fails when what is reported at the end is not passed on, and when a bus that hangs holds up the end.
func TestTheLastHealthReportIsPassedOn(t *testing.T) {
	for name, hangs := range map[string]bool{"to a bus that answers": false, "to one that hangs": true} {
		t.Run(name, func(t *testing.T) {
			playReports(t, func(t *testing.T, r *healthReports, b *bucket, stop func()) {
				b.set(true, hangs)
				say(r, "Provider/a/chat", "ok")
				pass(time.Second / 2)
				b.set(false, hangs)
				begin := time.Now()
				stop()
				if took := time.Since(begin); took > lastReports {
					t.Errorf("the end took %s", took)
				}
				if !hangs {
					b.expect(t, "at the end", map[string]string{"Provider/a/chat": "ok"})
				}
			})
		})
	}
}

package limits

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

const (
	// window is the length of each measurement of the two sides, which take turns. If the median exceeds its bound there
	// are more measurements, mostWindows in all, since the machine may have been busy.
	window      = 700 * time.Millisecond
	mostWindows = 7
	// Bounds on an attack's effect on the process: its memory, and the goroutines that remain.
	mostMemory     = 300 // MiB
	mostGoroutines = 10
	// interval is the default of --trigger-interval, writeTime the greatest time of the write on a busy machine.
	interval  = time.Second
	writeTime = time.Second
	// restTime is more than the longest time that a request may take to arrive.
	restTime = 15 * time.Second
)

// attacked is the fixture of attacks.
type attacked struct {
	*fixture
	victims
	bareURL string
	// quiet is another tenant; path is the path of its Receiver.
	quiet *env.Tenant
	path  string
	// rest is the number of goroutines of the process at rest.
	rest float64
}

// under returns the same fixture for a subtest.
func (b *attacked) under(t *testing.T) *attacked {
	under := *b
	under.fixture = &fixture{b.Under(t)}
	return &under
}

// withstand attacks once and fails the test unless every promise is kept. It returns whether a webhook was accepted now.
// before says whether one was accepted earlier, which the status may yet have to report.
func (b *attacked) withstand(a attack, before bool) (accepted bool) {
	b.Helper()
	audit, err := b.System.Audit()
	b.Must(err)
	begin := time.Now()
	b.forgetPeak()
	m := b.measure(a, b.HooksURL, true)
	if a.holds != nil {
		a.holds(b.fixture, m.answers)
	}
	ratio := b.compare(a, m.p99())
	for _, d := range m.dawdlers {
		b.Must(d.Wait(b.Within(restTime)))
	}
	left := b.left()
	asked := b.asked(audit, m.last)
	accepted = m.answers[http.StatusOK]+m.answers[http.StatusAccepted] > 0
	gap := env.RefusalGap
	if accepted || before {
		gap = env.ReportGap
	}
	requests := b.requested(a, audit, time.Since(begin), gap)
	peak, err := b.Memory(true)
	b.Must(err)
	b.Logf("%.0f requests/s %v; at most %d MiB; %+.0f goroutines afterwards; %d API requests for what came in; "+
		"the other tenant's p99 %s, %.2f times the bare handler's; its reconcile request after %s",
		float64(m.answers.Total())/m.took.Seconds(), m.answers, int(peak), left, requests, m.p99(), ratio, asked)
	if a.triggers > 0 { // its last requests may follow yet, and would count as the next attack's
		b.outlast()
	}
	if peak > mostMemory {
		b.Errorf("the process had %d MiB", int(peak))
	}
	if left > mostGoroutines {
		b.Errorf("%.0f goroutines are left over", left)
	}
	if ratio > a.mostTimes() {
		b.Errorf("the other tenant's p99 is %.2f times the bare handler's", ratio)
	}
	if asked > interval+writeTime {
		b.Errorf("the other tenant's reconcile request came after %s", asked)
	}
	return accepted
}

// measured is the result of an attack, with the other tenant's webhooks meanwhile.
type measured struct {
	answers load.Answers
	took    time.Duration
	samples []load.Sample
	// last is when the last of the samples was sent.
	last     time.Time
	dawdlers []*load.SlowConnections
}

func (m measured) p99() time.Duration { return load.Percentile(m.samples, 0.99) }

// measure attacks the server at base for one window or, with whole, until all requests of the attack are sent. Slow
// connections stay open.
func (b *attacked) measure(a attack, base string, whole bool) (m measured) {
	b.Helper()
	if a.slow != nil {
		for _, slow := range a.slow(base) {
			d, err := slow.Open(b.Ctx)
			b.Must(err)
			m.dawdlers = append(m.dawdlers, d)
		}
	}
	var floods []load.Flood
	if a.floods != nil {
		floods = a.floods(base)
	}
	request, err := load.Request(base, b.path, env.GitHubHeader(floodToken, "push", env.GitHubPush), env.GitHubPush)
	b.Must(err)
	short, cancel := context.WithTimeout(b.Ctx, window)
	defer cancel()
	sampling, end := context.WithCancel(b.Ctx)
	defer end()
	begin := time.Now()
	var mu sync.Mutex
	m.answers = load.Answers{}
	var wg sync.WaitGroup
	for _, f := range floods {
		ctx := short
		if whole && f.Count > 0 {
			ctx = b.Ctx
		}
		wg.Go(func() {
			answers, err := f.Run(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.Error(err)
			}
			for status, n := range answers {
				m.answers[status] += n
			}
		})
	}
	go func() {
		defer end()
		wg.Wait()
		m.took = time.Since(begin)
		<-short.Done()
	}()
	m.samples, err = load.Sampler{Base: base, Request: request, Every: 4 * time.Millisecond}.Run(sampling)
	m.last = time.Now()
	<-sampling.Done()
	wg.Wait()
	b.Must(err)
	refused := load.Answers{}
	for _, sample := range m.samples {
		if sample.Status/100 != 2 {
			refused[sample.Status]++
		}
	}
	if len(refused) > 0 {
		b.Errorf("of %d valid webhooks of the other tenant these were not accepted: %v", len(m.samples), refused)
	}
	return m
}

// compare measures the bare handler under the same attack, and both sides again while they are too far apart. It returns
// the other tenant's p99 as a multiple of the bare handler's.
func (b *attacked) compare(a attack, first time.Duration) (ratio float64) {
	b.Helper()
	again := func(base string) time.Duration {
		m := b.measure(a, base, false)
		for _, d := range m.dawdlers {
			b.Must(d.Close())
		}
		return m.p99()
	}
	mine, bare := []time.Duration{first}, []time.Duration{again(b.bareURL)}
	for {
		ratio = float64(load.Median(mine)) / float64(load.Median(bare))
		if ratio <= a.mostTimes() || len(mine) == mostWindows {
			b.Logf("p99 %v, the bare handler's %v", mine, bare)
			return ratio
		}
		mine = append(mine, again(b.HooksURL))
		bare = append(bare, again(b.bareURL))
	}
}

// outlast waits until no more reconcile requests are sent.
func (b *attacked) outlast() {
	b.Helper()
	for {
		audit, err := b.System.Audit()
		b.Must(err)
		_, err = audit.Wait(b.Within(interval+writeTime), func(e env.AuditEntry) bool { return e.Impersonated() != "" })
		b.Must(b.Ctx.Err())
		if err != nil { // none was sent
			return
		}
	}
}

// mostTimes bounds the other tenant's p99, as a multiple of the bare handler's.
func (a attack) mostTimes() float64 {
	if a.waits {
		return 4
	}
	return 2
}

// asked waits for the reconcile request of the other tenant's webhook that was accepted at the time, and returns how
// long it took.
func (b *attacked) asked(audit *env.Audit, accepted time.Time) time.Duration {
	b.Helper()
	entry, err := audit.Wait(b.Within(restTime), func(e env.AuditEntry) bool {
		return e.Verb == "patch" && e.ObjectRef.Namespace == b.quiet.Namespace && e.ObjectRef.Resource == "gitrepositories" && e.Received.After(accepted)
	})
	b.Must(err)
	return entry.Received.Sub(accepted)
}

// requested returns the number of requests to the API server that the attack caused. It fails the test for every
// forbidden one. An authentic webhook may cause one reconcile request an interval, and a status one report in each gap.
func (b *attacked) requested(a attack, audit *env.Audit, during, gap time.Duration) int {
	b.Helper()
	all, err := audit.Find(func(e env.AuditEntry) bool { return env.Ours(e) && e.ObjectRef.Namespace != b.quiet.Namespace })
	b.Must(err)
	led, err := env.WithoutReports(all, during, gap)
	b.Must(err)
	asked := 0
	for _, e := range led {
		if e.Impersonated() == "" || a.triggers == 0 {
			b.Errorf("the attack led to the request %s %s", e.Verb, e.RequestURI)
			continue
		}
		asked++
	}
	if asked > a.triggers*(int(during/interval)+1) {
		b.Errorf("%d reconcile requests in %s for %d objects", asked, during, a.triggers)
	}
	return len(all)
}

// goroutines returns the number of the process's goroutines.
func (b *attacked) goroutines() float64 {
	b.Helper()
	n, err := b.Metric(b.Ctx, "go_goroutines")
	b.Must(err)
	return n
}

// left returns how many goroutines more than at rest the process has once the temporary ones have ended.
func (b *attacked) left() (n float64) {
	b.Helper()
	_ = env.Eventually(b.Within(restTime), func(context.Context) error {
		if n = b.goroutines() - b.rest; n > mostGoroutines {
			return errors.New("too many")
		}
		return nil
	})
	return n
}

// forgetPeak resets the peak of the memory.
func (b *attacked) forgetPeak() {
	b.Helper()
	b.Must(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", b.Process().PID()), []byte("5"), 0o600))
}

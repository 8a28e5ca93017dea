package limit

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// T6: a namespace whose expressions are compiled again and again is delayed, and others are not. Fails when the time is not charged, or
// when namespaces do not take turns at the place.
func TestT6CompileShareDefersOnlyTheHeavyTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, takes = 16, 100 * time.Millisecond
		share := NewCompileShare()
		var used time.Duration
		end := make(chan struct{})
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for {
					putOff, err := share.Compile(t.Context(), "flood", func() {
						elapse(takes)
						used += takes // it is its turn
					})
					if err != nil {
						t.Error(err)
					}
					select {
					case <-end:
						return
					case <-time.After(putOff):
					}
				}
			})
		}
		began := time.Now()
		for i := range 100 {
			asked := time.Now()
			putOff, err := share.Compile(t.Context(), fmt.Sprint("team-", i%10), func() { elapse(time.Millisecond) })
			if waited := time.Since(asked); putOff > 0 || err != nil || waited > takes+time.Millisecond {
				t.Errorf("another namespace's expression %d: put off for %v, %v, after %v", i, putOff, err, waited)
			}
			elapse(time.Second)
		}
		close(end)
		wg.Wait()
		passed := time.Since(began)
		if share := mayCompile + passed/timeShare + 2*takes; used > share || used < share/2 {
			t.Errorf("%v of compiling in %v, want about %v", used, passed, share)
		}
	})
}

// T6: fails when an expression waits for those of many namespaces that are slow to compile, one after the other.
func TestT6AnExpressionWaitsForOneSlowNamespaceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 100 * time.Millisecond
		share := NewCompileShare()
		compile := func(namespace string, takes time.Duration) {
			if putOff, err := share.Compile(t.Context(), namespace, func() { elapse(takes) }); putOff > 0 || err != nil {
				t.Errorf("%s: put off for %v, %v", namespace, putOff, err)
			}
		}
		var wg sync.WaitGroup
		for range 2 { // the first round makes them slow
			wg.Wait()
			for i := range 32 {
				wg.Go(func() { compile(fmt.Sprint("flood-", i), takes) })
			}
		}
		synctest.Wait()
		began := time.Now()
		compile("team-a", time.Millisecond)
		if took := time.Since(began); took > takes+time.Millisecond {
			t.Errorf("it took %v", took)
		}
		wg.Wait()
	})
}

// T6: fails when many namespaces together use more than a quarter of the processors, or than one processor if that is more.
func TestT6CompilingLeavesProcessorsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := NewCompileShare()
		var mu sync.Mutex
		compiling, most, compiled := 0, 0, 0
		add := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			compiling, compiled = compiling+n, compiled+max(n, 0)
			most = max(most, compiling)
		}
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if _, err := share.Compile(t.Context(), fmt.Sprint("team-", i), func() {
					add(1)
					elapse(time.Millisecond)
					add(-1)
				}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if want := max(1, runtime.GOMAXPROCS(0)/4); most != want || compiled != 50 {
			t.Errorf("%d of 50 were compiled, %d at once, want %d", compiled, most, want)
		}
	})
}

// Fails when all delayed work returns at once, which costs more than the work itself.
func TestDeferredCompilationsDoNotReturnAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := NewCompileShare()
		const takes = 2 * FilterTime
		var first time.Duration
		for first == 0 {
			var err error
			if first, err = share.Compile(t.Context(), "flood", func() { elapse(takes) }); err != nil {
				t.Fatal(err)
			}
		}
		before := first
		for i := range 1000 {
			putOff, err := share.Compile(t.Context(), "flood", func() { t.Error("compiled before it is paid for") })
			if want := min(before+timeShare*takes, maxPutOff); err != nil || putOff != want {
				t.Fatalf("number %d: put off for %v, %v; want %v", i, putOff, err, want)
			}
			before = putOff
		}
		elapse(first)
		compiled := false
		if putOff, err := share.Compile(t.Context(), "flood", func() { compiled = true }); !compiled {
			t.Errorf("after that time: put off for %v, %v", putOff, err)
		}
	})
}

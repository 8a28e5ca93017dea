package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// testSyncer returns the syncer of a stream with one block, and a channel that lets one sync of the block through with an error or nil.
func testSyncer(t *testing.T, rounds *sync.WaitGroup) (*syncer, chan<- error) {
	t.Helper()
	dir, disk := t.TempDir(), make(chan error)
	for _, d := range []string{filepath.Join(streamDir(dir, "S"), blocksDir), filepath.Join(streamDir(dir, "S"), consumerDir), filepath.Join(dir, guardDir, "S")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(streamDir(dir, "S"), blocksDir, "1"+blockSuffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fsync := func(f *os.File) error {
		if strings.Contains(f.Name(), blockSuffix) {
			return <-disk
		}
		return nil
	}
	s := &syncer{files: newStreamFiles(dir, "S", fsync), rounds: rounds, begun: func() func() { return func() {} }}
	t.Cleanup(s.files.close)
	return s, disk
}

// Fails when a caller is answered by a round that had begun before its call, or when each caller has a round of its own.
func TestCallersDuringARoundShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds sync.WaitGroup
		s, disk := testSyncer(t, &rounds)
		answers := make(chan error, 3)
		call := func() { answers <- s.sync(t.Context()) }
		go call()
		synctest.Wait()
		go call()
		go call()
		synctest.Wait()
		for i, want := range []int{1, 2} {
			disk <- nil
			synctest.Wait()
			if got := len(answers); got != want {
				t.Errorf("round %d answered %d callers, want %d", i, got, want)
			}
			for range len(answers) {
				if err := <-answers; err != nil {
					t.Error(err)
				}
			}
		}
		rounds.Wait()
	})
}

// Fails when a sync is tried again after an error, or when a caller waits longer than its context.
func TestAFailedSyncIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds sync.WaitGroup
		s, disk := testSyncer(t, &rounds)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.sync(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of its context: %v", err)
		}
		broken := errors.New("the disk is gone")
		disk <- broken
		rounds.Wait()
		if err := s.sync(t.Context()); !errors.Is(err, broken) || !errors.Is(s.fault(), broken) {
			t.Errorf("afterwards: %v, fault %v", err, s.fault())
		}
		rounds.Wait()
	})
}

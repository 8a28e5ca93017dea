package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// firstLine is a log that closes a channel at its first line.
type firstLine struct {
	once *sync.Once
	said chan struct{}
}

func (l firstLine) Write(p []byte) (int, error) {
	l.once.Do(func() { close(l.said) })
	return len(p), nil
}

// A Deployment that rolls starts a Pod while the one before it is still ending. Fails when the second process does not wait for the first
// one's lock, or ends with an error while the lock may still be released.
func TestTheNextProcessWaitsForTheDataDirectory(t *testing.T) {
	dir, said := t.TempDir(), make(chan struct{})
	log := slog.New(slog.NewTextHandler(firstLine{&sync.Once{}, said}, nil))
	first, err := lockDir(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		second, err := lockDir(t.Context(), dir, log)
		if err == nil {
			err = second.Close()
		}
		locked <- err
	}()
	select {
	case <-said:
	case err := <-locked:
		t.Fatalf("the second process did not wait: %v", err)
	}
	if err := errors.Join(first.Close(), <-locked); err != nil {
		t.Error(err)
	}
}

// E2. Fails when a process does not start on a volume that has a directory which it may not read, as a file system's own lost+found.
func TestE2AVolumeWithADirectoryOfAnotherUserIsMeasured(t *testing.T) {
	dir, measured := t.TempDir(), make(chan error, 1)
	const size = 5
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "lost+found"), 0), os.WriteFile(filepath.Join(dir, "block"), make([]byte, size), 0o600),
		os.Chmod(filepath.Dir(dir), 0o755), // the other user goes through it
	); err != nil {
		t.Fatal(err)
	}
	go func() {
		runtime.LockOSThread() // for good: the thread, whose user changes, ends with the goroutine
		if os.Getuid() == 0 {  // may read everything
			if err := syscall.Setfsuid(65534); err != nil {
				measured <- err
				return
			}
		}
		used, _, err := measure(dir)
		if err == nil && used != size {
			err = fmt.Errorf("%d bytes are used, want %d", used, size)
		}
		measured <- err
	}()
	if err := <-measured; err != nil {
		t.Error(err)
	}
}

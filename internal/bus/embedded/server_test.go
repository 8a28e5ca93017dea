package embedded

import (
	"errors"
	"log/slog"
	"sync"
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

package harness_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"notifier/test/harness"
)

// Fails when Fill leaves space, when Free does not give it back, or when the disk outlives its holder.
func TestADiskFillsUpAndFrees(t *testing.T) {
	disk, err := harness.NewDisk(within(t, time.Minute), 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	write := func() error { return os.WriteFile(filepath.Join(disk.Dir, "file"), []byte("x"), 0o600) }
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	if err := write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write on the full disk returned %v", err)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Error(err)
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(disk.Dir); err == nil {
		t.Error("the disk outlives its holder")
	}
}

package env_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"notifier/test/env"
)

// Fails when Fill leaves space, when Free does not return it, or when the disk outlives its holder.
func TestADiskFillsUpAndFrees(t *testing.T) {
	disk, err := env.NewDisk(within(t, time.Minute), 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) error {
		return os.WriteFile(filepath.Join(disk.Dir, name), make([]byte, 8<<10), 0o600)
	}
	if err := disk.Fill(64 << 10); err != nil {
		t.Fatal(err)
	}
	if err := write("a"); err != nil {
		t.Errorf("a write into what was left returned %v", err)
	}
	if err := disk.Fill(0); err != nil {
		t.Fatal(err)
	}
	if err := write("c"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write on the full disk returned %v", err)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if err := write("b"); err != nil {
		t.Error(err)
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(disk.Dir); err == nil {
		t.Error("the disk outlives its holder")
	}
}

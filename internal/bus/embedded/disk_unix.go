//go:build linux || darwin

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file for this process, as flock(2) does. It reports false if another process has the lock.
func tryLock(f *os.File) (locked bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// freeBytes returns how many bytes are free for this process on the file system of a directory.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	return int64(st.Bavail * uint64(st.Bsize)), err
}

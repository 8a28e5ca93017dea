//go:build !linux && !darwin

package embedded

import (
	"errors"
	"os"
)

// tryLock returns an error: on other systems the program is only compiled for its commands, and keeps no data.
func tryLock(*os.File) (locked bool, err error) { return false, errors.ErrUnsupported }

// freeBytes returns an error, as tryLock does.
func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }

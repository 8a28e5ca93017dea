// Package alloctest measures what code allocates, for tests of bounds on it.
package alloctest

import "runtime"

// Bytes returns how many bytes are allocated while f runs, also by other goroutines.
func Bytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Package alloctest measures what code allocates and keeps, for tests of bounds on it.
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

// InUse returns how many bytes of the heap are in use.
func InUse() int64 {
	runtime.GC()
	runtime.GC() // of what the first one moved from the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

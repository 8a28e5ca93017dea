package fair

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkLimitersAllow calls Allow from all goroutines: with one key, with keys of their own, and with a new key each time.
func BenchmarkLimitersAllow(b *testing.B) {
	const size = 4096
	names := make([]string, 8*size)
	for i := range names {
		names[i] = fmt.Sprint("team-", i)
	}
	var goroutines atomic.Int64
	for name, next := range map[string]func(worker, i int) int{
		"one key":      func(int, int) int { return 0 },
		"own keys":     func(worker, i int) int { return worker%16*16 + i%16 },
		"unknown keys": func(worker, i int) int { return (worker*977 + i) % len(names) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			l := NewLimiters[string](1e9, 1e9, size)
			b.RunParallel(func(pb *testing.PB) {
				worker := int(goroutines.Add(1))
				for i := 0; pb.Next(); i++ {
					l.Allow(names[next(worker, i)])
				}
			})
			if l.Len() > size {
				b.Errorf("%d keys are remembered", l.Len())
			}
		})
	}
}

// BenchmarkCapacityAcquire acquires and releases one place at three existing levels, and of a key's capacity.
func BenchmarkCapacityAcquire(b *testing.B) {
	all := NewCapacity(1 << 20)
	team := all.Within(1<<20, 8)
	path := team.Within(1<<20, 0)
	b.Run("three levels", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				u, err := path.Acquire(context.Background(), 1)
				if err != nil {
					b.Error(err)
				}
				u.Release()
			}
		})
	})
	b.Run("a key", func(b *testing.B) {
		b.ReportAllocs()
		c := NewCapacities[string](all, 1<<20, 8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				u, err := c.Acquire(context.Background(), "team-a", 1)
				if err != nil {
					b.Error(err)
				}
				u.Release()
			}
		})
	})
}

// BenchmarkQueue pushes and pops items of a thousand namespaces.
func BenchmarkQueue(b *testing.B) {
	b.ReportAllocs()
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprint("team-", i, "/x")
	}
	q := NewQueue(namespaceOf)
	for i := 0; b.Loop(); i++ {
		q.Push(items[i%len(items)])
		if q.Len() > len(items)/2 {
			q.Pop()
		}
	}
}

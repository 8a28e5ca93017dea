package limit

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"notifier/internal/fair"
)

// BenchmarkShareEnter measures the turn of a webhook with a filter, without other webhooks.
func BenchmarkShareEnter(b *testing.B) {
	share := NewShare()
	b.ReportAllocs()
	for b.Loop() {
		turn, ok := share.Enter(b.Context(), "team-a", 1000)
		if !ok {
			b.Fatal("no turn")
		}
		turn.Leave()
	}
}

func BenchmarkAllow(b *testing.B) {
	addresses := make([]netip.Addr, 2*MaxAddresses)
	for i := range addresses {
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], uint32(i))
		addresses[i] = netip.AddrFrom4(raw)
	}
	for name, n := range map[string]int{"known": 1, "unknown": len(addresses)} {
		b.Run(name, func(b *testing.B) {
			l := fair.NewLimiters[netip.Addr](10, 100, MaxAddresses)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					l.Allow(addresses[i%n])
				}
			})
		})
	}
}

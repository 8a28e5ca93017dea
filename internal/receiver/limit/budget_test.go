package limit

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func TestABudgetAdmitsItsBurstAndThenItsRate(t *testing.T) {
	b := NewLimiters[string](Budget{Rate: 10, Burst: 3}, 10)
	now := time.Unix(0, 0)
	admitted := func(key string, at time.Time, tries int) (n int) {
		for range tries {
			if b.Allow(key, at) {
				n++
			}
		}
		return n
	}
	if n := admitted("a", now, 10); n != 3 {
		t.Errorf("%d at once, want 3", n)
	}
	if n := admitted("b", now, 10); n != 3 {
		t.Errorf("another key: %d at once, want 3", n)
	}
	if n := admitted("a", now.Add(200*time.Millisecond), 10); n != 2 {
		t.Errorf("%d after 200 ms, want 2", n)
	}
}

func TestABudgetWithoutARateIsOff(t *testing.T) {
	b := NewLimiters[string](Budget{}, 1)
	for range 1000 {
		if !b.Allow("a", time.Unix(0, 0)) {
			t.Fatal("refused")
		}
	}
	if b.len() != 0 {
		t.Errorf("%d keys are kept for nothing", b.len())
	}
}

// Fails without eviction, or when what is evicted is the key that was used last.
func TestBudgetsForgetTheKeyThatWasUsedLongestAgo(t *testing.T) {
	b := NewLimiters[netip.Addr](Budget{Rate: 0.001, Burst: 1}, 100)
	now := time.Unix(0, 0)
	steady := netip.MustParseAddr("10.0.0.1")
	b.Allow(steady, now)
	for i := range uint32(100_000) {
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], 0x0b000000+i)
		if !b.Allow(netip.AddrFrom4(raw), now) {
			t.Fatalf("address %d was refused because of others", i)
		}
		if i%50 == 0 && b.Allow(steady, now) {
			t.Fatalf("the address in steady use was forgotten after %d others", i)
		}
	}
	if b.len() != 100 {
		t.Errorf("%d keys are kept, want 100", b.len())
	}
}

func TestAnAddressStandsForAClient(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:2:ffff::":  "2001:db8:1:2::",
		"fe80::1:2%eth0":       "fe80::",
	} {
		if got := AddressKey(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s stands for %s, want %s", in, got, want)
		}
	}
}

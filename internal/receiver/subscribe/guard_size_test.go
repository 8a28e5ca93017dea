package subscribe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"notifier/internal/event"
)

// TestT6AGuardIsSmall is T6: each Receiver of type event has one for a minute after each event. Fails when a slot takes more than its time and
// its rounds need.
func TestT6AGuardIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(guard{}); size > 1280 {
		t.Errorf("a guard takes %d bytes", size)
	}
}

// TestAGuardFollowsEachSlot compares a guard with the rule of its slots. Fails when a slot's rounds count for another, when the time of a round
// is that of another one, or when the first event of a restored guard counts as a later one.
func TestAGuardFollowsEachSlot(t *testing.T) {
	type rally struct {
		at     time.Time
		rounds int
	}
	for seed := range uint64(50) {
		draw, now := rand.New(rand.NewPCG(3, seed)), time.Now()
		g, slots, stops := restored(Loop{UID: "r"}, now), map[int]rally{}, 0
		for range 500 {
			now = now.Add(time.Duration(draw.Int64N(int64(3 * loopRound))))
			if draw.IntN(100) == 0 {
				now = now.Add(loopWindow)
			}
			o := event.ObjectReference{Kind: "Kustomization", Name: fmt.Sprint("app-", draw.IntN(6))}
			r := slots[slotOf(o)]
			want := true
			switch since := now.Sub(r.at); {
			case r.rounds == 0 || since > loopWindow:
				r = rally{now, 1}
			case since < loopRound:
			case r.rounds < loopRounds:
				r = rally{now, r.rounds + 1}
			default:
				want = false
			}
			slots[slotOf(o)] = r
			if got, _ := g.evaluate(o, now); got != want {
				t.Fatalf("seed %d: triggers: %t, want %t", seed, got, want)
			}
			if !want {
				g.stop, stops = nil, stops+1
			}
		}
		if stops == 0 {
			t.Errorf("seed %d: no loop", seed)
		}
	}
}

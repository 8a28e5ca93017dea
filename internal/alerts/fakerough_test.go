package alerts

import (
	"math/rand/v2"
	"time"
)

// rough has the ways in which a real bus is worse than a fakeBus without it.
type rough struct {
	rng *rand.Rand
	// lag is how long after its time a message of the schedule is handed out. The server looks for such messages four times a second. It reads
	// all that it finds, and then stores them as due, one after the other, each of which removes what is at its place on the schedule by then:
	// also a newer message that was put there meanwhile.
	lag time.Duration
	// loses is the share of messages, in percent, that are read for that when a newer one is put in their place.
	loses int
}

// newRough returns how the bus of a simulation behaves, nil for every fourth seed.
func newRough(seed uint64) *rough {
	if seed%4 == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 11))
	return &rough{rng: rng, lag: time.Duration(rng.IntN(2000)) * time.Millisecond, loses: 50}
}

func (r *rough) lateness() time.Duration {
	if r == nil {
		return 0
	}
	return r.lag
}

// firing reports whether a message of the schedule, which another one is to replace, was read to be handed out.
func (r *rough) firing(m *fakeMessage) bool {
	return r != nil && !m.at.After(time.Now()) && r.rng.IntN(100) < r.loses
}

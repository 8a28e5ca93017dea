package alerts

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"notifier/internal/event"
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
	// slow says that some answers are late by up to busTimeout.
	slow bool
}

// newRough returns how the bus of a simulation behaves, nil for every fourth seed.
func newRough(seed uint64, slow bool) *rough {
	if seed%4 == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 11))
	return &rough{rng: rng, lag: time.Duration(rng.IntN(2000)) * time.Millisecond, loses: 50, slow: slow}
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

// late returns how much later than its effect a call is answered.
func (r *rough) late() time.Duration {
	if !r.slow || r.rng.IntN(30) > 0 {
		return 0
	}
	return time.Duration(1 + r.rng.Int64N(int64(busTimeout)))
}

// pause is how long a returned message is not handed out.
func (r *rough) pause() time.Duration {
	if r == nil {
		return 0
	}
	return time.Second
}

// stored returns a delivery as it is read from a stream.
func (r *rough) stored(d event.Delivery) (is event.Delivery) {
	if r == nil {
		return d
	}
	message := d.Event.Message // it may have megabytes
	d.Event.Message = ""
	body, err := json.Marshal(&d)
	if err == nil {
		err = json.Unmarshal(body, &is)
	}
	if err != nil {
		panic(err)
	}
	is.Event.Message = message
	return is
}

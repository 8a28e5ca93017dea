package alerts

import (
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

const (
	// requestEvery is how often replays and tests of one Provider may be asked for in the long run. requestBurst is how many may be asked
	// for at once.
	requestEvery = 10 * time.Second
	requestBurst = 5
	// requestKeys bounds the Providers whose requests are counted.
	requestKeys = 10_000
	// againEvery is how often one delivery is replayed: two requests at once mean one replay. againKeys bounds the deliveries that are
	// remembered for it.
	againEvery = 10 * time.Second
	againKeys  = 16 * view.MaxReplay
	// requestsAtOnce bounds the requests that are served at a time, each of another namespace: each may have MaxReplay deliveries in memory, without
	// their events.
	requestsAtOnce = 4
)

// Labels of requests that are not served.
const (
	labelTooOften = "too_often"
	labelRefused  = "refused"
)

// tooOften returns the error of a request for a Provider of which too many were made.
func tooOften() *event.Error {
	e := event.NewError(event.Retry, labelTooOften,
		"too many replays and tests of this Provider were asked for: ask again in "+inWords(requestEvery), nil)
	e.RetryAfter = requestEvery
	return e
}

package alerts

import "time"

// load is the state of a shard at its last tick, for the gauges.
type load struct {
	// held and away count the deliveries in memory and on the schedule. open counts the open breakers.
	held, away, open int
	// destination and provider are when the longest-waiting deliveries began to wait: for a destination, and for a Provider that cannot be
	// used. A zero time means none.
	destination, provider time.Time
}

// load returns the load of all shards that are served here.
func (d *Deliverer) load() (all load) {
	for _, value := range d.loads.Range {
		l := value.(load)
		all.held, all.away, all.open = all.held+l.held, all.away+l.away, all.open+l.open
		all.destination, all.provider = earlier(all.destination, l.destination), earlier(all.provider, l.provider)
	}
	return all
}

// age returns the seconds since a time, 0 for a zero time.
func age(since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return time.Since(since).Seconds()
}

// earlier returns the earlier of two times, ignoring a zero time.
func earlier(t, u time.Time) time.Time {
	if t.IsZero() || !u.IsZero() && u.Before(t) {
		return u
	}
	return t
}

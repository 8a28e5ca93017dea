package provider

import "golang.org/x/time/rate"

// Limit is how many messages a second a destination takes, and in what bursts. A Rate of 0 is no limit.
type Limit struct {
	Rate  rate.Limit
	Burst int
}

// Limited is a Sender whose vendor publishes a limit, which holds where the Provider names none.
type Limited interface {
	// Limit returns what the vendor's own hosts take, and no limit for any other host.
	Limit() Limit
}

package limit

import "time"

// elapse lets time pass on the clock of a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }

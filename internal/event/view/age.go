package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDays is beyond the age of everything that is kept.
const maxDays = 3650

// ParseAge parses how long ago a time was: a duration of Go, or a number of days such as "7d". It returns an error for any other text, and
// for a negative age.
func ParseAge(text string) (time.Duration, error) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		if n, err := strconv.ParseUint(days, 10, 31); err == nil {
			return time.Duration(min(n, maxDays)) * 24 * time.Hour, nil
		}
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, fmt.Errorf("%q is not how long ago a time was, such as 90s, 1h30m or 7d", text)
	}
	return age, nil
}

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

// ParseTime parses a time as in RFC 3339, or how long ago it was, as ParseAge does. It returns an error for an age of zero, which may be meant
// as all or as nothing.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil && at.Year() > 0 && at.Year() <= 9999 {
		return at, nil
	}
	if age, err := ParseAge(text); err == nil && age > 0 {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time as in RFC 3339, such as 2026-01-31T12:00:00Z, nor how long ago it was, such as 90s, 1h30m or 7d", text)
}

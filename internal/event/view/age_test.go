package view

import (
	"testing"
	"time"
)

// Fails when an age that the documentation names is refused, when a text that is no age is accepted, or when days overflow.
func TestAnAgeIsADurationOrDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "0s": 0, "2000000000d": maxDays * 24 * time.Hour,
	} {
		if got, err := ParseAge(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "-1h", "1.5d", "7 d", "7dd", "99999999999999999999d", "soon"} {
		if got, err := ParseAge(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

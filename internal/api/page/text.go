package page

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxMessage bounds a message on its own page, in bytes. On a page each may become eight.
const maxMessage = 256 << 10

// clipAt bounds a message in a list, in characters.
const clipAt = 240

// clip returns the beginning of a text.
func clip(s string) string {
	if len(s) <= clipAt {
		return s
	}
	n := 0
	for i := range s {
		if n == clipAt {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// visible writes invisible characters that change the display of others as code points. These are control characters except tab,
// line feed and carriage return, characters that override or embed a direction of writing (Unicode Standard Annex 9), and tags. It
// takes whole pages, so that it covers every text. The page's own texts have no such characters.
func visible(page []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(page); {
		r, size := rune(page[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(page[i:])
		}
		if unseen(r) {
			out = append(out, page[done:i]...)
			out = fmt.Appendf(out, "[U+%04X]", r)
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return page
	}
	return append(out, page[done:]...)
}

func unseen(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0: // C0, DEL and C1
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	default:
		return r >= 0xe0000 && r <= 0xe007f
	}
}

// full returns a time to the second.
func full(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// relative returns the distance of a time from now in words. The script uses the same words as time passes.
func relative(now, t time.Time) string {
	d := now.Sub(t)
	ahead := d < 0
	if ahead {
		d = -d
	}
	var text string
	switch {
	case d < 5*time.Second:
		return "now"
	case d < time.Minute:
		text = fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		text = fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		text = fmt.Sprintf("%d h", d/time.Hour)
	default:
		text = fmt.Sprintf("%d d", d/(24*time.Hour))
	}
	if ahead {
		return "in " + text
	}
	return text + " ago"
}

// millis returns a duration in a form for people.
func millis(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(ms)/1000), ".0") + " s"
}

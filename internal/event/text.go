package event

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Truncate returns s if it is at most limit bytes long. Otherwise it returns the longest beginning of s that fits into limit
// together with mark, followed by mark. It cuts between characters. The result of a longer s does not keep the rest in memory. A
// limit that is too small for the mark leaves the mark alone.
func Truncate(s string, limit int, mark string) string {
	if len(s) <= limit {
		return s
	}
	end := max(limit-len(mark), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + mark
}

// internalKeys are the metadata by which controllers recognize events, or authenticate them.
var internalKeys = []string{"checksum", "digest", "token"}

// IsInternalKey reports whether a metadata key, without the API group before it, is for the controllers alone. Such a key is not
// shown to destinations.
func IsInternalKey(key string) bool {
	return slices.ContainsFunc(internalKeys, func(k string) bool { return strings.EqualFold(k, key) })
}

// PercentEncode returns s with line breaks, spaces, quotes and all characters other than printable ASCII percent-encoded, as CloudEvents
// requires of a header's value (section 3.1.3.2 of its HTTP binding).
func PercentEncode(s string) string {
	const upper = "0123456789ABCDEF"
	plain := func(c byte) bool { return c > ' ' && c <= '~' && c != '%' && c != '"' }
	first := 0
	for first < len(s) && plain(s[first]) {
		first++
	}
	if first == len(s) {
		return s
	}
	out := make([]byte, 0, len(s)+len(s)/2)
	for i := range len(s) {
		if plain(s[i]) {
			out = append(out, s[i])
			continue
		}
		out = append(out, '%', upper[s[i]>>4], upper[s[i]&15])
	}
	return string(out)
}

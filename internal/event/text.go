package event

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Truncate returns s, or, if it is longer than limit bytes, as much of its beginning as fits in them together with mark, which shows that
// something was left out. It cuts between characters. What it returns of a longer s does not keep the rest in memory. A limit that is too
// small for the mark leaves the mark alone.
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

// internalKeys are the metadata by which controllers tell events apart, or authenticate them.
var internalKeys = []string{"checksum", "digest", "token"}

// IsInternalKey reports whether a metadata key, without the API group before it, is the controllers' own and is not shown to destinations.
func IsInternalKey(key string) bool {
	return slices.ContainsFunc(internalKeys, func(k string) bool { return strings.EqualFold(k, key) })
}

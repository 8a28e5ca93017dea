package event

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Fails when a text is longer than its limit, is cut within a character, or loses its mark. Also fails when a short text is
// changed.
func TestATextIsCutBetweenCharacters(t *testing.T) {
	for _, tc := range []struct {
		text, mark string
		limit      int
		want       string
	}{
		{"short", "…", 5, "short"},
		{"longer", "", 4, "long"},
		{"longer", "…", 5, "lo…"},
		{"éé", "", 3, "é"},
		{"ééé", "…", 5, "é…"},
		{"日本語", "", 1, ""},
		{"text", "…", 2, "…"},
		{"", "…", 0, ""},
		{"\x80\x80\x80", "", 1, ""}, // no character begins here
	} {
		if got := Truncate(tc.text, tc.limit, tc.mark); got != tc.want {
			t.Errorf("%q to %d: got %q, want %q", tc.text, tc.limit, got, tc.want)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("ééé", 4, "…")
	f.Add("\xff\xfe\xfd", 2, "")
	f.Fuzz(func(t *testing.T, s string, limit int, mark string) {
		if limit < len(mark) {
			return
		}
		got := Truncate(s, limit, mark)
		switch {
		case len(got) > limit:
			t.Errorf("%d bytes, want at most %d", len(got), limit)
		case len(s) <= limit && got != s:
			t.Error("changed")
		case utf8.ValidString(s) && utf8.ValidString(mark) && !utf8.ValidString(got):
			t.Error("cut within a character")
		case !strings.HasPrefix(s, strings.TrimSuffix(got, mark)) && got != s:
			t.Error("not the beginning")
		}
	})
}

// E7: fails when a token that serves the transport is shown, in any spelling of its key.
func TestE7KeysThatServeTheTransportAreInternal(t *testing.T) {
	for key, want := range map[string]bool{"token": true, "Token": true, "CHECKSUM": true, "digest": true, "revision": false, "": false} {
		if got := IsInternalKey(key); got != want {
			t.Errorf("%q: got %v", key, got)
		}
	}
}

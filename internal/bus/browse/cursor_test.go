package browse

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"notifier/internal/event/view"
)

// Fails when a cursor does not keep its places, or is accepted for another list, after a change or for another number of streams.
func TestACursorIsGoodForItsListAlone(t *testing.T) {
	places := []Place{{Below: 1 << 40, Rest: 3}, {Below: 1}, {}}
	cursor := encodeCursor("deliveries team", places)
	got, err := decodeCursor("deliveries team", cursor, len(places))
	if err != nil || !slices.Equal(got, places) {
		t.Fatalf("read %v (%v)", got, err)
	}
	bad := []string{"x", "=", "\x00", "AAAAAAAAAAA", strings.Repeat("A", 1<<20)}
	bad = append(bad, cursor[1:], cursor[:len(cursor)-1], cursor+"AA", cursor+"=")
	for i := range cursor {
		changed := []byte(cursor)
		if changed[i]++; changed[i] != cursor[i] {
			bad = append(bad, string(changed))
		}
	}
	for _, c := range bad {
		if got, err := decodeCursor("deliveries team", c, len(places)); !errors.Is(err, view.ErrBadCursor) {
			t.Errorf("%.40q: %v (%v)", c, got, err)
		}
	}
	for list, n := range map[string]int{"deliveries other": 3, "events team": 3, "deliveries tea": 3, "deliveries team": 2} {
		if _, err := decodeCursor(list, cursor, n); !errors.Is(err, view.ErrBadCursor) {
			t.Errorf("%s with %d streams: %v", list, n, err)
		}
	}
}

// FuzzCursor decodes forged cursors with a correct check. Fails when one panics or has another number of places than requested.
func FuzzCursor(f *testing.F) {
	f.Add([]byte{3, 1, 0, 1, 0, 1, 0}, "")
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "x")
	f.Add([]byte{3, 0x80}, encodeCursor("l", make([]Place, 3)))
	f.Fuzz(func(t *testing.T, body []byte, raw string) {
		for _, cursor := range []string{raw, base64.RawURLEncoding.EncodeToString(append(check("l", body), body...))} {
			places, err := decodeCursor("l", cursor, 3)
			if err == nil && len(places) != 3 || err != nil && !errors.Is(err, view.ErrBadCursor) {
				t.Errorf("%d places (%v)", len(places), err)
			}
			if err != nil {
				continue
			}
			if again, err := decodeCursor("l", encodeCursor("l", places), 3); err != nil || !slices.Equal(again, places) {
				t.Errorf("%v are read as %v (%v)", places, again, err)
			}
		}
	})
}

package browse

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"notifier/internal/event/view"
)

const (
	// checkBytes is the length of a cursor's check, maxCursor the length of the longest cursor in characters.
	checkBytes = 8
	maxCursor  = 256
)

// Place is the point where a list resumes in one stream.
type Place struct {
	// Below is the sequence of the first message that was listed, 0 when the list has not begun.
	Below uint64
	// Rest is how many records of that message, the oldest ones, were not listed.
	Rest uint64
}

// encodeCursor writes places as a cursor that is accepted only for a list of the same name. The check is not a secret: a forged cursor
// reads the same list from another place.
func encodeCursor(list string, places []Place) string {
	body := binary.AppendUvarint(nil, uint64(len(places)))
	for _, p := range places {
		body = binary.AppendUvarint(body, p.Below)
		body = binary.AppendUvarint(body, p.Rest)
	}
	return base64.RawURLEncoding.EncodeToString(append(check(list, body), body...))
}

// decodeCursor reads n places, or returns view.ErrBadCursor. An empty cursor has the places of a list that has not begun.
func decodeCursor(list, cursor string, n int) ([]Place, error) {
	places := make([]Place, n)
	if cursor == "" {
		return places, nil
	}
	if len(cursor) > maxCursor {
		return nil, view.ErrBadCursor
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < checkBytes || string(check(list, raw[checkBytes:])) != string(raw[:checkBytes]) {
		return nil, view.ErrBadCursor
	}
	body := raw[checkBytes:]
	next := func() uint64 {
		v, size := binary.Uvarint(body)
		if size <= 0 {
			err = view.ErrBadCursor
			return 0
		}
		body = body[size:]
		return v
	}
	if next() != uint64(n) || err != nil {
		return nil, view.ErrBadCursor
	}
	for i := range places {
		places[i] = Place{Below: next(), Rest: next()}
	}
	if err != nil || len(body) > 0 {
		return nil, view.ErrBadCursor
	}
	return places, nil
}

func check(list string, body []byte) []byte {
	sum := sha256.Sum256([]byte(list + "\x00" + string(body)))
	return sum[:checkBytes]
}

package cel

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/limit"
)

// T6: fails when a document that is too large to be decoded waits for the place of decoded ones.
func TestT6ADocumentThatIsNotDecodedTakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFilters(t, &objectCache{}, "", rule{name: "a", filter: `req.size() > 0`}, rule{name: "b"})
		if _, ok := f.share.Enter(t.Context(), "team-b", maxDecoded); !ok {
			t.Fatal("no share")
		}
		began := time.Now()
		triggers, err := f.Select(t.Context(), nil, []byte("["+strings.Repeat(`{"":0},`, 100_000)+"0]"))
		if errors.Is(err, limit.ErrNoTurn) || chosen(t, triggers) != "b" || time.Since(began) != 0 {
			t.Errorf("after %v: %v, %v", time.Since(began), triggers, err)
		}
	})
}

package event_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"notifier/internal/event"
)

// IDs are on disk and at destinations, so a release must make the IDs of the release before it. Fails when the form changes, or
// when fields with and without room on the stack have different forms.
func TestAnIDHasTheSameFormHoweverLongItsFields(t *testing.T) {
	for _, length := range []int{0, 1, 100, 800, 850, 900, 950, 1000, 1024, 1 << 20} {
		e := sample()
		e.Message = strings.Repeat("m", length)
		var text strings.Builder
		for _, field := range []string{
			"post", "team-a", "Kustomization", "app", "u-1", "error", "BuildFailed", e.Message, "", "main@sha1:abc", "",
		} {
			fmt.Fprintf(&text, "%d:%s", len(field), field)
		}
		sum := sha256.Sum256([]byte(text.String()))
		if got, want := event.PostID(e), hex.EncodeToString(sum[:16]); got != want {
			t.Errorf("a message of %d bytes: got %s, want %s", length, got, want)
		}
	}
}

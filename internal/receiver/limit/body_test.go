package limit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"notifier/internal/fair"
)

// Fails when a body of a few bytes is read into a buffer of the largest size that needs no capacity.
func TestAShortBodyTakesWhatItsSenderAnnounces(t *testing.T) {
	for name, tc := range map[string]struct {
		announced int64
		want      int
	}{
		"a short body":    {100, 101},
		"no length":       {-1, BufferSize},
		"a long body":     {1 << 20, BufferSize},
		"less than comes": {10, BufferSize},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 100))))
		r.ContentLength = tc.announced
		body := Body{Max: MaxBody, Use: fair.NewCapacity(MaxBody).Use()}
		if err := body.Read(r); err != nil || len(body.Bytes) != 100 || cap(body.Bytes) != tc.want {
			t.Errorf("%s: %d bytes in a buffer of %d, want %d: %v", name, len(body.Bytes), cap(body.Bytes), tc.want, err)
		}
	}
}

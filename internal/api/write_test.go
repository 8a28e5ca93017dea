package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// Fails when a client that reads a long list slowly gets a part of it only, or when one that does not read on, or hardly, holds its answer for
// longer than it may.
func TestALongAnswerLastsForAsLongAsItIsRead(t *testing.T) {
	for name, tc := range map[string]struct {
		pause time.Duration // after each 4 KiB
		whole bool
		least time.Duration
		most  time.Duration
	}{
		"read slowly":  {time.Second / 2, true, 30 * time.Second, answerTimeout},
		"not read on":  {answerTimeout / 2, false, 0, 2 * answerTimeout},
		"hardly read":  {5 * time.Second, false, 0, answerTimeout + time.Minute},
		"read at once": {time.Millisecond, true, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.authority.grant("jane", "team-a", reads...)
				for i := range 400 {
					w.store.deliveries = append(w.store.deliveries, view.Delivery{ID: fmt.Sprint(i), Failure: strings.Repeat("x", 1000)})
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/v1/namespaces/team-a/deliveries", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer jane")
				resp, err := w.serve().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				var read int64
				began := time.Now()
				for err == nil {
					<-time.After(tc.pause)
					var n int64
					n, err = io.CopyN(io.Discard, resp.Body, 4<<10)
					read += n
				}
				took := time.Since(began)
				if whole := errors.Is(err, io.EOF) && read == resp.ContentLength; whole != tc.whole || took < tc.least || took > tc.most {
					t.Errorf("%d of %d bytes after %s: %v", read, resp.ContentLength, took, err)
				}
			})
		})
	}
}

package events

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"notifier/internal/receiver/limit"
)

// do serves r and returns the answer.
func do(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// isFree takes the capacity, all of which is so many bytes, and reports whether nobody holds any.
func isFree(t *testing.T, r *limit.BodyCapacity, size int64) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	all, rest := limit.BodyUse{Capacity: r}, limit.BodyUse{Capacity: r}
	return all.TakeNow(size) && rest.TakeRest(ctx)
}

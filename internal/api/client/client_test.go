package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// cut is a transport whose answer breaks, or falls silent, after its first bytes.
type cut struct{ silent bool }

func (c cut) RoundTrip(r *http.Request) (*http.Response, error) {
	body, answer := io.Pipe()
	go func() {
		_, _ = io.WriteString(answer, `{"items":[`)
		if c.silent {
			<-r.Context().Done()
		}
		_ = answer.CloseWithError(io.ErrUnexpectedEOF)
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
}

// Fails when an answer that the network cut is told as one of another server, or when an answer that does not go on is waited for.
func TestAnAnswerThatIsCutIsToldAsThat(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, err := New("http://api", cut{silent})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			if _, err := c.Namespaces(ctx); err == nil || !strings.Contains(err.Error(), "read the answer") || time.Since(began) > maxSilence {
				t.Errorf("silent %t: error %v after %s", silent, err, time.Since(began))
			}
		})
	}
}

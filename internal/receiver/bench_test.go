package receiver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"notifier/internal/event"
)

// bareHandler checks the HMAC and answers, and that is all: what the door is measured against.
func bareHandler() http.Handler {
	mux := chi.NewRouter()
	mux.Post("/hook/{digest}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if err != nil {
			http.Error(w, "body", http.StatusRequestEntityTooLarge)
			return
		}
		got, err := hex.DecodeString(strings.TrimPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256="))
		mac := hmac.New(sha256.New, []byte(token))
		mac.Write(body)
		if err != nil || !hmac.Equal(got, mac.Sum(nil)) {
			http.Error(w, "signature", http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	return mux
}

// instant is a bus that costs nothing.
var instant = triggersFunc(func(context.Context, event.Trigger) error { return nil })

// benchBody is about what GitHub sends for a push.
var benchBody = `{"ref":"refs/heads/main","pad":"` + strings.Repeat("x", 8<<10) + `"}`

// BenchmarkHandler measures the handlers alone, without net/http.
func BenchmarkHandler(b *testing.B) {
	hook := newHook(b, "team-a/hook")
	for name, bc := range map[string]struct {
		handler http.Handler
		path    string
		key     string
	}{
		"bare":     {bareHandler(), hook.Path, token},
		"accepted": {newWebhooks(b, newTable(b, DefaultLimits(), hook), instant), hook.Path, token},
		"refused":  {newWebhooks(b, newTable(b, DefaultLimits(), hook), instant), hook.Path, "other"},
		"unknown":  {newWebhooks(b, newTable(b, DefaultLimits(), hook), instant), Path("x", "x", "x"), token},
	} {
		b.Run(name, func(b *testing.B) {
			r := push(bc.path, bc.key, benchBody)
			reader := strings.NewReader(benchBody)
			r.Body = io.NopCloser(reader)
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset(benchBody)
				bc.handler.ServeHTTP(discard{}, r)
			}
		})
	}
}

// BenchmarkRatio measures, over 64 keep-alive connections in one process and in interleaved windows, how many webhooks per second
// the door accepts for one hot Receiver against the bare handler. Both share the machine with the senders.
func BenchmarkRatio(b *testing.B) {
	hook := newHook(b, "team-a/hook")
	bare, _ := serveReal(b, bareHandler(), nil)
	door, _ := serveReal(b, newWebhooks(b, newTable(b, DefaultLimits(), hook), instant), nil)
	c := client(b, 64)
	window := func(base string) (perSecond float64) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		total := 0
		end := time.Now().Add(time.Second)
		body, signature := []byte(benchBody), sign(token, benchBody)
		for range 64 {
			wg.Go(func() {
				n := 0
				for time.Now().Before(end) {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, base+hook.Path, bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("X-GitHub-Event", "push")
					r.Header.Set("X-Hub-Signature-256", signature)
					resp, err := c.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode/100 == 2 {
						n++
					}
				}
				mu.Lock()
				defer mu.Unlock()
				total += n
			})
		}
		wg.Wait()
		return float64(total)
	}
	var bareSum, doorSum float64
	for b.Loop() {
		bareSum += window(bare)
		doorSum += window(door)
	}
	b.ReportMetric(doorSum/bareSum, "ratio")
	b.ReportMetric(bareSum/float64(b.N), "bare/s")
	b.ReportMetric(doorSum/float64(b.N), "door/s")
}

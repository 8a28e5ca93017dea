package receiver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/receivertest"
)

// bareHandler only checks the HMAC and answers. It is the reference that the handler is measured against.
func bareHandler() http.Handler {
	mux := chi.NewRouter()
	mux.Post("/hook/{digest}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit.MaxBody))
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

// benchBody has about the size of GitHub's body for a push.
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
		"accepted": {newWebhooks(b, newTable(b, DefaultLimits(), hook), triggersFunc(receivertest.Stored)), hook.Path, token},
		"refused":  {newWebhooks(b, newTable(b, DefaultLimits(), hook), triggersFunc(receivertest.Stored)), hook.Path, "other"},
		"unknown":  {newWebhooks(b, newTable(b, DefaultLimits(), hook), triggersFunc(receivertest.Stored)), Path("x", "x", "x"), token},
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

// BenchmarkRatio measures how many webhooks per second the handler accepts for one hot Receiver, relative to the bare handler. It uses 64
// keep-alive connections in one process and interleaved windows. Both handlers share the machine with the senders.
func BenchmarkRatio(b *testing.B) {
	hook := newHook(b, "team-a/hook")
	bare, _ := serveReal(b, bareHandler(), nil)
	handler, _ := serveReal(b, newWebhooks(b, newTable(b, DefaultLimits(), hook), triggersFunc(receivertest.Stored)), nil)
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
	var bareSum, handlerSum float64
	for b.Loop() {
		bareSum += window(bare)
		handlerSum += window(handler)
	}
	b.ReportMetric(handlerSum/bareSum, "ratio")
	b.ReportMetric(bareSum/float64(b.N), "bare/s")
	b.ReportMetric(handlerSum/float64(b.N), "handler/s")
}

// BenchmarkP99UnderFlood measures the 99th percentile of one tenant's valid webhooks while 32 connections flood the same listener with
// refused webhooks, relative to the bare handler under the same flood (T6: at most 2).
func BenchmarkP99UnderFlood(b *testing.B) {
	mine, theirs := newHook(b, "team-a/hook"), newHook(b, "team-b/hook")
	bare, _ := serveReal(b, bareHandler(), nil)
	handler, _ := serveReal(b, newWebhooks(b, newTable(b, DefaultLimits(), mine, theirs), triggersFunc(receivertest.Stored)), nil)
	flooding, valid := client(b, 32), client(b, 1)
	window := func(base, path, key string) (p99 time.Duration) {
		ctx, stop := context.WithTimeout(b.Context(), time.Second)
		defer stop()
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = send(ctx, flooding, base+path, key, benchBody)
				}
			})
		}
		var took []time.Duration
		for ctx.Err() == nil {
			begin := time.Now()
			if status, err := send(b.Context(), valid, base+theirs.Path, token, benchBody); err != nil || status/100 != 2 {
				b.Errorf("a valid webhook: %d, %v", status, err)
			}
			took = append(took, time.Since(begin))
		}
		wg.Wait()
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	for name, flood := range map[string]struct{ path, key string }{
		"unknown paths":  {Path("x", "x", "x"), token},
		"bad signatures": {mine.Path, "other"},
		"valid webhooks": {mine.Path, token},
	} {
		b.Run(name, func(b *testing.B) {
			var bareSum, handlerSum time.Duration
			for b.Loop() {
				bareSum += window(bare, flood.path, flood.key)
				handlerSum += window(handler, flood.path, flood.key)
			}
			b.ReportMetric(float64(handlerSum)/float64(bareSum), "ratio")
			b.ReportMetric(float64(handlerSum.Milliseconds())/float64(b.N), "p99-ms")
		})
	}
}

// BenchmarkAdmission takes and releases the capacity of a webhook that is being read, at all three levels: alone, and with a kept body of
// 64 KiB.
func BenchmarkAdmission(b *testing.B) {
	hook := newHook(b, "team-a/hook")
	table := newTable(b, DefaultLimits(), hook)
	rt := table.first(hook.Path)
	for name, body := range map[string]int{"a place": 0, "a place and a body": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c := table.capacity(rt)
					place, ok := c.enter(b.Context(), time.Second)
					kept := c.bodies.Use()
					if !ok || body > 0 && kept.Grow(b.Context(), int64(body)) != nil {
						b.Error("no capacity")
					}
					kept.Release()
					place.Release()
				}
			})
		})
	}
}

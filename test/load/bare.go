package load

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"notifier/test/env"
)

// StartBare starts the baseline of webhooks, a chi handler that checks the HMAC and answers, and returns its base URL.
func StartBare(ctx context.Context, token string) (*env.Process, string, error) {
	return start(ctx, "bare-chi", token)
}

func bareReceiver(token string) (http.Handler, error) {
	mux := chi.NewRouter()
	mux.Post("/hook/{digest}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 3<<20))
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
	return mux, nil
}

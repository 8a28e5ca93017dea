package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/go-chi/chi/v5"
)

// bareCommand makes this program the baseline of the webhook rows.
const bareCommand = "bare-chi"

// serveBare serves the baseline on a free port, in a process of its own as the notifier is: a chi handler that checks the HMAC and
// answers. It prints its address and ends when its standard input does.
func serveBare(token string) int {
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("ready http://%s\n", l.Addr())
	if err := http.Serve(l, mux); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

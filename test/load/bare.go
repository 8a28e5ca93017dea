package load

import (
	"context"
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

	"notifier/test/env"
)

// bareCommand makes a program that calls Main the baseline.
const bareCommand = "bare-chi"

// Main must be called first by every program that calls StartBare, which starts that same program again. It does not return
// in the process that StartBare started.
func Main() {
	if len(os.Args) == 3 && os.Args[1] == bareCommand {
		os.Exit(serveBare(os.Args[2]))
	}
}

// StartBare starts the baseline in a process of its own, as the notifier is, and returns its base URL.
func StartBare(ctx context.Context, token string) (*env.Process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	p, err := env.Start(env.Command{Path: self, Args: []string{bareCommand, token}})
	if err != nil {
		return nil, "", err
	}
	line, err := p.WaitLog(ctx, func(line string) bool { return strings.HasPrefix(line, "ready ") })
	return p, strings.TrimPrefix(strings.TrimSpace(line), "ready "), err
}

// serveBare serves the baseline on a free port: a chi handler that checks the HMAC and answers. It prints its address.
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

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
)

// token is the caller's token in the kubeconfig of the tests.
const token = "the-callers-token"

// fakeAPI answers each path with its given answer, to callers with the token.
type fakeAPI struct {
	*httptest.Server
	mu    sync.Mutex // one request is answered at a time: a command asks for several namespaces at once, and again after an answer that was cut
	asked []*http.Request
}

func newFakeAPI(t *testing.T, answers map[string]any) *fakeAPI {
	t.Helper()
	f := &fakeAPI{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, r)
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, `{"error":"sign in"}`, http.StatusUnauthorized)
			return
		}
		switch answer := answers[r.Method+" "+r.URL.RequestURI()].(type) {
		case nil:
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "there is no " + r.URL.RequestURI()})
		case http.HandlerFunc:
			answer(w, r)
		case string:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(answer))
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// kubeconfig writes a kubeconfig whose user has the given fields, in YAML, for an API server at an address.
func kubeconfig(t *testing.T, server, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: team-a}}]
clusters: [{name: k, cluster: {server: "` + server + `", insecure-skip-tls-verify: true}}]
users: [{name: u, user: ` + user + `}]
`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// result is the output and the error of a command.
type result struct {
	out, notes string
	err        error
}

// call runs a command line against an API as the caller with the token.
func call(t *testing.T, api *fakeAPI, line ...string) result {
	t.Helper()
	return callAt(context.WithoutCancel(t.Context()), t, api, line...)
}

// callAt is call with a context, whose end is the caller's Ctrl-C.
func callAt(ctx context.Context, t *testing.T, api *fakeAPI, line ...string) result {
	t.Helper()
	return run(ctx, append(line, "--server="+api.URL, "--kubeconfig="+kubeconfig(t, "https://127.0.0.1:1", "{token: "+token+"}")))
}

func callWith(t *testing.T, args []string) result {
	t.Helper()
	return run(context.WithoutCancel(t.Context()), args)
}

func run(ctx context.Context, args []string) result {
	root := &cobra.Command{Use: "notifier", SilenceUsage: true, SilenceErrors: true}
	Add(root)
	var out, notes bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&notes)
	err := root.ExecuteContext(ctx)
	return result{out.String(), notes.String(), err}
}

func (r result) wants(t *testing.T, texts ...string) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("error %v", r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.out, text) {
			t.Errorf("the output lacks %q:\n%s", text, r.out)
		}
	}
}

package receiver

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// T5: the router is the first decoder of unauthenticated input. For any request line, a path that is not served to the letter is answered
// 404 and publishes nothing. Fails when a path is cleaned, decoded, or compared in part.
func FuzzRouter(f *testing.F) {
	hook := newHook(f, "team-a/hook")
	bus := &recorder{}
	w := newWebhooks(f, newTable(f, unlimited(), hook), bus)
	for _, uri := range []string{
		hook.Path, hook.Path + "/", hook.Path + "?", hook.Path + "?a=b", hook.Path + "#x", "//" + hook.Path, "/." + hook.Path,
		"/hook/../" + hook.Path[1:], "/hook//" + hook.Path[6:], "/%68ook/" + hook.Path[6:], "/HOOK/" + hook.Path[6:],
		"http://x" + hook.Path, "http://x", "*", "/", "", "/hook/", "/hook/{digest}", "/metrics", "/%00", "/hook/%2e%2e/", "/\xff",
		"x:443", "/hook/" + strings.ToUpper(hook.Path[6:]), "/hook/" + strings.Repeat("a", 1<<12),
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodConnect, http.MethodOptions, "BREW"} {
			f.Add(method, uri)
		}
	}
	f.Fuzz(func(t *testing.T, method, uri string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + uri + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil {
			return // net/http answers it
		}
		resp := do(w, r)
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		known := r.RequestURI == hook.Path
		switch {
		case !known && (resp.StatusCode != http.StatusNotFound || len(body) > 0):
			t.Errorf("%q %q: %d %s, want 404 and nothing", method, uri, resp.StatusCode, body)
		case known && r.Method == http.MethodPost && resp.StatusCode != http.StatusBadRequest: // it is not signed
			t.Errorf("%q %q: %d, want 400", method, uri, resp.StatusCode)
		case known && r.Method != http.MethodPost && resp.StatusCode != http.StatusMethodNotAllowed:
			t.Errorf("%q %q: %d, want 405", method, uri, resp.StatusCode)
		}
		if bus.Count() != 0 {
			t.Errorf("%q %q published", method, uri)
		}
	})
}

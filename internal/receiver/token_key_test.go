package receiver

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/receiver/oidc/oidctest"
)

// T5, T6: the path of a Receiver without a token can be computed from its name and namespace, so anybody can send tokens there. Fails when
// one that fits into the headers of a request takes a processor for seconds because of the key that it brings.
func TestT6ATokenThatBringsAKeyIsRefusedAtOnce(t *testing.T) {
	path := Path("", "app", "team-a")
	issuers := newIssuers(t, oidctest.New(t, issuerURL, "a"), "")
	hook := newHook(t, "team-a/app", onPath(path), func(h *Hook) { h.Verifier = oidcVerifier(t, issuers, issuerURL) })
	url, _ := serveReal(t, newWebhooks(t, newTable(t, DefaultLimits(), hook), &recorder{}), nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = oidctest.Bearer(oidctest.KeyedToken(issuerURL, `"jwk"`, 20480))
	began := time.Now()
	resp, err := client(t, 1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if body := bodyOf(t, resp); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "token malformed") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it takes %v", took)
	}
}

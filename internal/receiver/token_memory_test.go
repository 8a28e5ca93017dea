package receiver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"notifier/internal/alloctest"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc/oidctest"
	"notifier/internal/receiver/verify"
)

// T6: a tenant may be the issuer of its tokens, and have a thousand requests at once whose bodies are slow, or which wait for the turn of their
// filters. Fails when the claims of each are in memory meanwhile in the form that expressions read, in fifty times the memory.
func TestT6TheClaimsOfARequestThatWaitsTakeLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer, share := oidctest.New(t, issuerURL, "a"), limit.NewShare()
		hook := newHook(t, "team-a/app", func(h *Hook) {
			var err error
			h.Verifier, err = verify.New("generic-oidc", verify.Credentials{
				Issuers: newIssuers(t, issuer, ""), Namespace: "team-a", Share: share, OIDC: []verify.OIDCProvider{{
					IssuerURL: issuerURL, Validations: []verify.OIDCValidation{{Expression: `claims.repository == "org/app"`, Message: "no"}},
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			h.Filter = newFilters(t, share, rule{"app", `claims.repository == "org/app"`})
		})
		handler := newWebhooks(t, newTable(t, unlimited(), hook), &recorder{})
		header := oidctest.Bearer(issuer.Token(t, "a", map[string]any{"z": slices.Repeat([]any{map[string]any{"": 0}}, 1100)}))
		const requests, most = 64, 96 << 10
		before := alloctest.InUse()
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			if each := (alloctest.InUse() - before) / requests; each > most {
				t.Errorf("a request with a token of %d bytes keeps %d while %s, want at most %d", len(header.Get("Authorization")), each, when, most)
			}
		}
		slow, end := context.WithCancel(t.Context())
		defer end()
		var wg sync.WaitGroup
		for range requests {
			r := httptest.NewRequest(http.MethodPost, hook.Path, io.NopCloser(&dawdling{ctx: slow}))
			r.Header = header
			wg.Go(func() {
				if status := do(handler, r).StatusCode; status != http.StatusOK {
					t.Errorf("answered %d", status)
				}
			})
		}
		check("its body is read")
		turn, ok := share.Enter(t.Context(), "team-a", 0)
		if !ok {
			t.Fatal("no turn")
		}
		end()
		check("it waits for its turn")
		turn.Leave()
		wg.Wait()
	})
}

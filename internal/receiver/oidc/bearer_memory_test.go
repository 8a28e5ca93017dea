package oidc

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"notifier/internal/alloctest"
	"notifier/internal/receiver/oidc/oidctest"
)

// T6: a thousand requests of a namespace may wait for the keys of its issuer, which need not answer. Fails when each keeps more than its token
// meanwhile, such as the header's values as the library reads them: a hundred times the memory.
func TestT6ATokenThatWaitsForKeysTakesLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		issuers := newIssuers(t, roundTripper(func(*http.Request) (*http.Response, error) {
			<-stuck
			return nil, fmt.Errorf("no answer")
		}), "")
		text := base64.RawURLEncoding.EncodeToString
		header := `{"alg":"ES256","z":[` + strings.Repeat(`{"":0},`, 1100) + `0]}`
		token := text([]byte(header)) + "." + text([]byte(`{"iss":"`+issuerURL+`"}`)) + "." + text(make([]byte, 64))
		const requests, most = 64, 64 << 10
		before := alloctest.InUse()
		var wg sync.WaitGroup
		for range requests {
			wg.Go(func() { _ = verify(tokensOf(t, issuers, "team", issuerURL), oidctest.Bearer(token), "") })
		}
		synctest.Wait()
		if each := (alloctest.InUse() - before) / requests; each > most {
			t.Errorf("a request with a token of %d bytes keeps %d, want at most %d", len(token), each, most)
		}
		close(stuck)
		wg.Wait()
	})
}

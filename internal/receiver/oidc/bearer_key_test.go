package oidc

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/receiver/oidc/oidctest"
)

// T5, T6: anybody can send a token, and the library computes with a private key in its header before any signature is checked: for seconds,
// or minutes with a longer one. Fails when it does.
func TestT6AKeyInTheHeaderOfATokenIsNotRead(t *testing.T) {
	issuer := oidctest.New(t, issuerURL, "a")
	issuers := newIssuers(t, issuer, "")
	for _, name := range []string{`"jwk"`, `"\u006awk"`} {
		token := oidctest.KeyedToken(issuerURL, name, 20480)
		began := time.Now()
		_, err := issuers.Verify(t.Context(), token, Demand{Issuer: issuerURL, Audience: oidctest.Audience})
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: a token of %d bytes takes %v", name, len(token), took)
		}
		if !errors.Is(err, RefusedBearer) {
			t.Errorf("%s: got %v, want %v", name, err, RefusedBearer)
		}
	}
	if _, fetches := issuer.Counts(); fetches != 0 {
		t.Errorf("the issuer is asked for its keys %d times", fetches)
	}
}

package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc/oidctest"
)

// T6: a signature over P-521 takes thirty times as long as one over P-256, and a tenant chooses its issuers. Fails when such signatures of
// one namespace are checked side by side, or others wait for them.
func TestT6SlowSignaturesAreCheckedInTheNamespacesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL)
		keys := map[string]crypto.Signer{"quick": oidctest.NewKey(t)}
		for name, curve := range map[string]elliptic.Curve{"slow": elliptic.P384(), "slowest": elliptic.P521()} {
			key, err := ecdsa.GenerateKey(curve, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			keys[name] = key
		}
		issuer.Lists(keys)
		issuers, share := newIssuers(t, issuer, ""), limit.NewShare()
		expect := func(when, namespace, keyID string, alg jose.SignatureAlgorithm, want error) {
			t.Helper()
			token := oidctest.SignedToken(t, alg, keys[keyID], keyID, issuer.Claims(nil))
			_, err := issuers.Verify(t.Context(), token, Demand{
				Namespace: namespace, Issuer: issuerURL, Audience: oidctest.Audience, Share: share,
			})
			if !errors.Is(err, want) {
				t.Errorf("%s: the %s key in %s: got %v, want %v", when, keyID, namespace, err, want)
			}
		}
		turn, ok := share.Enter(t.Context(), "team-a", 0)
		if !ok {
			t.Fatal("no turn")
		}
		expect("in another's turn", "team-a", "quick", jose.ES256, nil)
		elapse(fetchPause)
		expect("in another's turn", "team-a", "slow", jose.ES384, limit.ErrNoTurn)
		expect("in another's turn", "team-a", "slowest", jose.ES512, limit.ErrNoTurn)
		expect("in another's turn", "team-b", "slowest", jose.ES512, nil)
		if _, fetches := issuer.Counts(); fetches != 1 {
			t.Errorf("%d fetches, want one: a signature that was not checked says nothing about the keys", fetches)
		}
		turn.Leave()
		expect("afterwards", "team-a", "slow", jose.ES384, nil)
		expect("afterwards", "team-a", "slowest", jose.ES512, nil)
	})
}

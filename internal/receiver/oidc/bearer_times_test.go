package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/oidc/oidctest"
)

// RFC 7519 allows fractions, and some issuers write them. Fails when a token is refused for a fraction in the time of its issue or beginning,
// when a fraction makes either earlier, and when one that is accepted has a fraction in its end.
func TestTimesButTheEndMayHaveFractions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "a")
		v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
		now := time.Now().Unix()
		at := func(seconds int64, fraction string) json.RawMessage {
			return json.RawMessage(fmt.Sprint(now+seconds) + fraction)
		}
		for name, test := range map[string]struct {
			changes map[string]any
			want    error
		}{
			"issued and begun":             {map[string]any{"iat": at(-1, ".25"), "nbf": at(-1, ".123456")}, nil},
			"begun before the clocks' era": {map[string]any{"nbf": json.RawMessage("-0.5")}, nil},
			"issued within the skew":       {map[string]any{"iat": at(299, ".75"), "exp": at(400, "")}, nil},
			"issued beyond the skew":       {map[string]any{"iat": at(300, ".25"), "exp": at(400, "")}, RefusedClaims},
			"begun within its last second": {map[string]any{"nbf": at(59, ".5"), "exp": at(60, "")}, RefusedClaims},
			"an end with a fraction":       {map[string]any{"exp": at(60, ".5")}, RefusedBearer},
			"beyond every number":          {map[string]any{"iat": json.RawMessage("1e300")}, RefusedBearer},
			"a fraction in quotes":         {map[string]any{"nbf": "0.5"}, RefusedBearer},
		} {
			if err := verify(v, oidctest.Bearer(issuer.Token(t, "a", test.changes)), ""); !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", name, err, test.want)
			}
		}
	})
}

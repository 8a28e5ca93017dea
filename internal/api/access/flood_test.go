package access

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"

	"notifier/internal/api"
)

// T6, T5. Fails when each invented token is reviewed, or when they delay known good tokens from the same address. Also fails when
// they use up the budget of another address.
func TestT6InventedTokensReachTheKubernetesAPISeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
			t.Fatal(err)
		}
		for i := range 3 * addressBurst { // good tokens cost their address nothing
			if _, err := a.Authenticate(t.Context(), fmt.Sprint("good", i), here); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second / unknownRate)
		}
		before, _ := k.asked()
		busy := 0
		for i := range 10_000 {
			if _, err := a.Authenticate(t.Context(), fmt.Sprint("bad", i), here); errors.Is(err, api.ErrBusy) {
				busy++
			}
		}
		if after, _ := k.asked(); after-before > addressBurst || busy < 10_000-addressBurst {
			t.Errorf("10,000 tokens were asked about %d times, %d were told to wait", after-before, busy)
		}
		if n := testutil.ToFloat64(a.metrics.tokens.over); n != float64(busy) {
			t.Errorf("%v are counted", n)
		}
		if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
			t.Errorf("a token that was good before, from the same address: %v", err)
		}
		if _, err := a.Authenticate(t.Context(), "good-new", netip.MustParseAddr("192.0.2.2")); err != nil {
			t.Errorf("a token from another address: %v", err)
		}
		for i := range 10_000 { // from ten thousand addresses
			_, _ = a.Authenticate(t.Context(), fmt.Sprint("worse", i), netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}))
		}
		if all, _ := k.asked(); all-before > addressBurst+unknownBurst+reserveBurst+3 {
			t.Errorf("%d questions", all-before)
		}
		if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
			t.Errorf("a token that was good before, during a flood of all addresses: %v", err)
		}
	})
}

// T6: ten addresses, which each may have five invalid tokens reviewed a second, send as many as they can. Fails when a user with a token that
// was never seen waits for them, from an address without invalid tokens; or when all have more reviews than before.
func TestT6AFewAddressesWithInvalidTokensRefuseNobodyElsesFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		const seconds, ticks, attackers = 120, 20, 10
		refused := 0
		for tick := range seconds * ticks {
			for i := range attackers {
				_, _ = a.Authenticate(t.Context(), fmt.Sprint("bad", tick, "-", i), netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
			}
			if tick%ticks == 0 { // one new user a second
				user := netip.AddrFrom4([4]byte{10, 0, 1, byte(tick / ticks)})
				if _, err := a.Authenticate(t.Context(), fmt.Sprint("good", tick), user); err != nil {
					refused++
				}
			}
			<-time.After(time.Second / ticks)
		}
		if refused > 0 {
			t.Errorf("%d of %d first tokens are refused", refused, seconds)
		}
		invalid, _ := k.asked()
		if invalid -= seconds; invalid > seconds*(unknownRate+reserveRate)+unknownBurst+reserveBurst {
			t.Errorf("%d invalid tokens are reviewed in %d s", invalid, seconds)
		}
	})
}

// T6. Fails when a user with many good tokens delays the first token of another user.
func TestT6ManyGoodTokensAreInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAuthority(t, nil)
		for i := range 3 * unknownBurst {
			if _, err := a.Authenticate(t.Context(), fmt.Sprint("good", i), here); i < tenantTokens && err != nil {
				t.Fatal(i, err)
			}
		}
		if _, err := a.Authenticate(t.Context(), "good-other", netip.MustParseAddr("192.0.2.2")); err != nil {
			t.Errorf("another's first token: %v", err)
		}
	})
}

// T6. Fails when a tenant who makes tokens by the thousand has others' tokens forgotten, so that they share the budget of invented ones.
func TestT6ATenantsTokensPushOutNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		k.token = func(s authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
			made := owner
			account, ok := strings.CutPrefix(s.Token, "made")
			if made.User.Username = "system:serviceaccount:team-m:" + account; s.Token == "good" {
				made, ok = owner, true
			}
			made.Authenticated = ok
			return made, nil
		}
		if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
			t.Fatal(err)
		}
		for i := range maxUsers + 1 {
			if _, err := a.Authenticate(t.Context(), fmt.Sprint("made", i), netip.AddrFrom4([4]byte{10, 0, 1, byte(i % 10)})); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second / unknownRate)
		}
		<-time.After(userFor)
		for i := range 1000 {
			_, _ = a.Authenticate(t.Context(), fmt.Sprint("bad", i), netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 200)}))
		}
		if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
			t.Errorf("a token that was good before: %v", err)
		}
	})
}

// T6. Fails when a tenant with more tokens than are remembered has each reviewed again and again, as fast as it sends them, or when these
// reviews use up the reserve of other addresses.
func TestT6ATenantsManyTokensReachTheKubernetesAPISeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		const seconds, ticks, pods = 10, 100, 10
		for i := range seconds * ticks * pods {
			_, _ = a.Authenticate(t.Context(), fmt.Sprint("good", i%(2*tenantTokens)), netip.AddrFrom4([4]byte{10, 0, 0, byte(i % pods)}))
			if i%pods == 0 {
				<-time.After(time.Second / ticks)
			}
		}
		remembered := tenantTokens * (1 + seconds*int(time.Second)/int(userFor))
		if reviews, _ := k.asked(); reviews > remembered+seconds*unknownRate+unknownBurst+reserveBurst {
			t.Errorf("%d tokens are reviewed %d times in %d s", 2*tenantTokens, reviews, seconds)
		}
		k.set(func() {
			k.token = func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
				another := owner
				another.User.Username = "joe"
				return another, nil
			}
		})
		if _, err := a.Authenticate(t.Context(), "good-other", netip.MustParseAddr("192.0.2.2")); err != nil {
			t.Errorf("another's first token: %v", err)
		}
	})
}

// T6. Fails when the access reviews for one tenant delay those for another.
func TestT6QuestionsAboutRightsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAuthority(t, nil)
		var asking sync.WaitGroup
		for account := range 10 { // of one namespace
			mallory := &api.User{Name: fmt.Sprintf("system:serviceaccount:team-m:%d", account), Key: [32]byte{byte(account)}}
			for i := range 500 {
				asking.Go(func() {
					_, _ = a.Allowed(t.Context(), mallory, api.ListRight("deliveries"), fmt.Sprint("team-", i))
				})
			}
		}
		synctest.Wait()
		begin := time.Now()
		ok, err := a.Allowed(t.Context(), &api.User{Name: "jane"}, api.ListRight("deliveries"), "team-a")
		if took := time.Since(begin); !ok || err != nil || took > time.Second/4 {
			t.Errorf("another user is told %t, %v after %s", ok, err, took)
		}
		asking.Wait()
		if n := a.asking.Len(); n != 0 {
			t.Errorf("%d tenants are remembered about whom nothing is asked", n)
		}
	})
}

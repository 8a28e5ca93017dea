package access

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"notifier/internal/api"
)

// T6. Fails when reviews that are refused at the same time empty an empty budget further, so that first tokens are refused long after a flood.
func TestT6AFloodOfTokensTakesNothingFromAnEmptyBudget(t *testing.T) {
	a, _, _ := newAuthority(t, nil)
	now := time.Now()
	var flood sync.WaitGroup
	var sent, charged atomic.Int32
	for range 8 {
		flood.Go(func() {
			for range 5000 {
				var from [4]byte
				binary.BigEndian.PutUint32(from[:], uint32(sent.Add(1)))
				if _, ok := a.charge(tokenKey{}, netip.AddrFrom4(from), now); ok {
					charged.Add(1)
				}
			}
		})
	}
	flood.Wait()
	if n := charged.Load(); n != unknownBurst+reserveBurst {
		t.Errorf("%d reviews in one moment, want %d", n, unknownBurst+reserveBurst)
	}
	if _, ok := a.charge(tokenKey{}, here, now.Add(time.Second/unknownRate)); !ok {
		t.Error("when the budgets have a token again it is refused")
	}
}

// T6. Fails when a valid token costs its address or the common budgets something because another is reviewed at the same time.
func TestT6ValidTokensThatAreReviewedAtTheSameTimeCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		k.takes = time.Second / 5
		k.token = func(s authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
			another := owner
			another.User.Username = s.Token
			return another, nil
		}
		var sent sync.WaitGroup
		for i := range 10 * (unknownBurst + reserveBurst) { // four times as many as have invalid tokens reviewed
			sent.Go(func() {
				from := netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 100)})
				if _, err := a.Authenticate(t.Context(), fmt.Sprint("good", i), from); errors.Is(err, api.ErrBusy) {
					t.Errorf("token %d is refused", i)
				}
			})
			<-time.After(time.Second / (4 * unknownRate))
		}
		sent.Wait()
	})
}

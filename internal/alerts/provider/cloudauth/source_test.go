package cloudauth

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/fair"
)

// Fails when a cloud that does not answer takes the time of each send although the kept token is still valid, or when such a token is used
// after its end.
func TestAValidTokenOutlivesACloudThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exchanges := 0
		kept, err := bearer("kept", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		s := &Source{cloud: "Cloud", turn: fair.NewCapacity(1), token: kept}
		s.exchange = func(ctx context.Context, _ *provider.Client) (accessToken, error) {
			exchanges++
			<-ctx.Done()
			return accessToken{}, ctx.Err()
		}
		send := func() (took time.Duration, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			began := time.Now()
			token, err := s.Token(ctx)
			if err == nil && (token != "kept" || ctx.Err() != nil || !time.Now().Before(s.token.expiresAt)) {
				t.Errorf("got %q, %v before its end, in a send that ended with %v", token, time.Until(s.token.expiresAt), ctx.Err())
			}
			return time.Since(began), err
		}
		<-time.After(time.Until(s.token.renew))
		for range 60 { // twelve minutes are left
			if took, err := send(); err != nil || took > renewTime {
				t.Fatalf("%v before its end: got %v after %v", time.Until(s.token.expiresAt), err, took)
			}
			<-time.After(10 * time.Second)
		}
		if exchanges > 12 {
			t.Errorf("%d exchanges were tried in ten minutes", exchanges)
		}
		<-time.After(time.Until(s.token.expiresAt))
		if _, err := send(); err == nil {
			t.Error("a token is used after its end")
		}
	})
}

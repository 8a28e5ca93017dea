package secrets

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"notifier/internal/reconcile/kube"
)

// holdMany makes n Secrets, ten to a namespace, each referenced by one Receiver, and watched.
func (k *keeper) holdMany(t *testing.T, n int) (keys []kube.Key) {
	t.Helper()
	for i := range n {
		key := kube.Key{Namespace: fmt.Sprintf("team-%d", i/10), Name: fmt.Sprintf("s%d", i)}
		k.vault.put(key, map[string]string{"token": "one"})
		k.holds(t, User{"Receiver", key}, Want{Name: key.Name, Keys: []string{"token"}}, true, map[string]string{"token": "one"})
		keys = append(keys, key)
	}
	pass(time.Minute)
	return keys
}

// Fails when each of thousands of watches separately detects that the API server is away, or when one begins more than once after its
// return. Fails when a Secret that was rotated meanwhile is not served within ten seconds.
func TestAfterAnOutageEverySecretIsWatchedAgainOnce(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		const n = 5000
		k.watches = rate.NewLimiter(500, 5000) // as with the default QPS
		keys := k.holdMany(t, n)
		k.vault.goAway()
		k.vault.mu.Lock()
		k.vault.tried = 0
		k.vault.mu.Unlock()
		pass(time.Minute)
		k.vault.mu.Lock()
		tried := k.vault.tried
		k.vault.mu.Unlock()
		if tried > 60*watchBeginners {
			t.Errorf("%d tries in a minute of outage", tried)
		}
		last := keys[n-1]
		k.vault.put(last, map[string]string{"token": "two"})
		k.vault.comeBack()
		pass(10 * time.Second)
		k.holds(t, User{"Receiver", last}, Want{Name: last.Name, Keys: []string{"token"}}, true, map[string]string{"token": "two"})
		pass(time.Minute)
		k.vault.mu.Lock()
		defer k.vault.mu.Unlock()
		if k.vault.tried > n+watchBeginners {
			t.Errorf("%d watches for %d Secrets after the return", k.vault.tried, n)
		}
	})
}

// T6: fails when a namespace waits for all watches of another namespace with many Secrets.
func TestT6NamespacesTakeTurnsInBeingWatched(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.watches = rate.NewLimiter(10, 1)
		for i := range 1000 {
			name := fmt.Sprintf("s%d", i)
			k.holds(t, User{"Receiver", kube.Key{Namespace: "many", Name: name}}, Want{Name: name, Keys: []string{"token"}}, false, nil)
		}
		k.holds(t, appUser, token, false, nil)
		pass(5 * time.Second)
		k.vault.put(hookKey, map[string]string{"token": "one"})
		pass(time.Second)
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
	})
}

// T6: fails when a Secret that is released while its watch begins counts as an API server that does not answer: a tenant that makes and
// deletes objects would delay the watches of all others.
func TestT6ASecretThatIsReleasedWhileItsWatchBeginsDelaysNoOther(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		var lines bytes.Buffer
		k.away.Log = slog.New(slog.NewTextHandler(&lines, nil))
		k.vault.mute = map[kube.Key]bool{hookKey: true}
		for range 10 {
			k.holds(t, appUser, token, false, nil)
			pass(time.Millisecond)
			k.Release(appUser)
			pass(time.Millisecond)
		}
		other := kube.Key{Namespace: "team-b", Name: "hook"}
		k.holds(t, User{"Receiver", other}, token, false, nil)
		pass(time.Millisecond)
		if k.vault.open() != 1 || lines.Len() > 0 {
			t.Errorf("%d watches of another namespace's Secret, want 1; log: %s", k.vault.open(), lines.String())
		}
	})
}

// Fails when watches begin while a start still needs the API server, or never begin because the start does not end. Fails when a Secret is
// watched that was released before.
func TestNoSecretIsWatchedBeforeTheStartIsOver(t *testing.T) {
	for name, ends := range map[string]bool{"a start that ends": true, "a start that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, started := newVault(), make(chan struct{})
				s := New(Options{
					Source: v, QPS: 500, Changed: func(User) {}, Started: over(), Quiet: started,
					Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
				})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				defer wg.Wait()
				defer cancel()
				wg.Go(func() { s.Run(ctx) })
				v.put(hookKey, map[string]string{"token": "one"})
				for _, w := range []Want{{Name: "unused", Keys: token.Keys}, token} { // the second replaces the first
					if _, err := s.Hold(ctx, appUser, w); err != nil {
						t.Fatal(err)
					}
				}
				pass(startGrace - time.Second)
				if n := v.open(); n != 0 {
					t.Errorf("%d watches during the start", n)
				}
				if ends {
					close(started)
				} else {
					pass(time.Second)
				}
				pass(time.Second)
				if n := v.open(); n != 1 {
					t.Errorf("%d watches after the start", n)
				}
			})
		})
	}
}

// Fails when a read that ends late brings a Secret back that was deleted before the present watch began: the watch never sends the deletion.
func TestALateReadDoesNotBringBackADeletedSecret(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.holds(t, appUser, token, false, nil)
		pass(time.Second)
		k.vault.goAway()
		k.vault.put(hookKey, map[string]string{"token": "one"})
		late := make(chan struct{})
		k.vault.hold = late
		ended := make(chan error)
		go func() { ended <- k.Refresh(t.Context(), appUser) }()
		synctest.Wait()
		k.vault.delete(hookKey)
		k.vault.comeBack()
		pass(4 * time.Second)
		k.vault.hold = nil
		close(late)
		if err := <-ended; err != nil || k.vault.open() != 1 {
			t.Fatalf("error %v, %d watches", err, k.vault.open())
		}
		pass(time.Hour)
		k.holds(t, appUser, token, false, nil)
	})
}

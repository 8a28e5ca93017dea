package secrets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"notifier/internal/reconcile/kube"
)

// pass advances the time of a synctest bubble, then waits until all goroutines are blocked.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// over returns a closed channel, for a start that is over.
func over() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// keeper runs a Store over a vault.
type keeper struct {
	*Store
	vault *vault
	mu    sync.Mutex
	told  []User
}

func (k *keeper) takeTold() []User {
	k.mu.Lock()
	defer k.mu.Unlock()
	told := k.told
	k.told = nil
	return told
}

func withSecrets(t *testing.T, test func(t *testing.T, k *keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{vault: newVault()}
		k.Store = New(Options{
			Source: k.vault, QPS: 500,
			Changed: func(u User) {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.told = append(k.told, u)
			},
			Started: over(), Quiet: over(), Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		k.reads, k.watches = rate.NewLimiter(500, 1000), rate.NewLimiter(125, 125)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { k.Run(ctx) })
		test(t, k)
	})
}

var (
	hookKey  = kube.Key{Namespace: "team-a", Name: "hook"}
	appUser  = User{"Receiver", kube.Key{Namespace: "team-a", Name: "app"}}
	webUser  = User{"Receiver", kube.Key{Namespace: "team-a", Name: "web"}}
	chatUser = User{"Provider", kube.Key{Namespace: "team-a", Name: "chat"}}
	token    = Want{Name: "hook", Keys: []string{"token"}}
)

// holds checks the result of Hold for one want.
func (k *keeper) holds(t *testing.T, u User, w Want, found bool, data map[string]string) {
	t.Helper()
	states, err := k.Hold(t.Context(), u, w)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range states[0].Data {
		got[s.Key] = s.Value
	}
	if data == nil {
		data = map[string]string{}
	}
	if diff := cmp.Diff(data, got); diff != "" || states[0].Found != found {
		t.Errorf("found: got %t, want %t; data (-want +got):\n%s", states[0].Found, found, diff)
	}
}

func TestASecretIsReadOnceAndItsUsersAreNotifiedOfChanges(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.vault.put(hookKey, map[string]string{"token": "one", "other": "never kept"})
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		k.holds(t, webUser, token, true, map[string]string{"token": "one"})
		pass(time.Second)
		if n := k.vault.reads(); n != 1 {
			t.Errorf("reads: got %d, want 1", n)
		}
		if testutil.ToFloat64(k.metrics.held) != 1 || testutil.ToFloat64(k.metrics.watches) != 1 {
			t.Error("the Secret is not counted")
		}
		if _, kept := k.entries[hookKey].data.get("other"); kept {
			t.Error("a value that nobody asked for is kept")
		}
		k.vault.put(hookKey, map[string]string{"token": "one", "other": "changed"})
		pass(time.Second)
		if told := k.takeTold(); told != nil {
			t.Errorf("told %v of a change in a key that nobody asked for", told)
		}
		k.vault.put(hookKey, map[string]string{"token": "two"})
		pass(time.Second)
		if told := k.takeTold(); len(told) != 2 {
			t.Errorf("told: got %v, want both users", told)
		}
		k.holds(t, appUser, token, true, map[string]string{"token": "two"})
		k.vault.delete(hookKey)
		pass(time.Second)
		if told := k.takeTold(); len(told) != 2 {
			t.Errorf("told of the deletion: got %v, want both users", told)
		}
		k.holds(t, appUser, token, false, nil)
	})
}

// Fails when a missing Secret is not watched, or is watched from a version instead of from its present state. Fails when a Secret without the
// wanted keys is taken for a missing one: its users would go on reporting that there is none.
func TestASecretThatIsMadeLaterIsNoticed(t *testing.T) {
	for name, wanted := range map[string]map[string]string{"with the keys": {"token": "one"}, "without them": {}} {
		t.Run(name, func(t *testing.T) {
			withSecrets(t, func(t *testing.T, k *keeper) {
				k.holds(t, appUser, token, false, nil)
				data := maps.Clone(wanted)
				data["other"] = "two"
				k.vault.put(hookKey, data)
				pass(time.Second)
				if diff := cmp.Diff([]User{appUser}, k.takeTold(), cmp.AllowUnexported(User{})); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
				k.holds(t, appUser, token, true, wanted)
			})
		})
	}
}

// Fails when the watch is not begun again, or when it resumes from the version of a read instead of a watch. Fails when the present state
// is not sent again after a version was too old.
func TestABrokenWatchMissesNothing(t *testing.T) {
	for name, compact := range map[string]bool{"that goes on from its version": false, "whose version is gone": true} {
		t.Run(name, func(t *testing.T) {
			withSecrets(t, func(t *testing.T, k *keeper) {
				k.vault.put(hookKey, map[string]string{"token": "one"})
				k.vault.cut(compact) // now the Secret is older than the oldest version to watch from
				k.holds(t, appUser, token, true, map[string]string{"token": "one"})
				pass(time.Second)
				k.vault.cut(false)
				k.vault.put(hookKey, map[string]string{"token": "two"})
				k.vault.cut(compact)
				pass(10 * time.Second)
				if told := k.takeTold(); len(told) != 1 {
					t.Errorf("told: got %v", told)
				}
				k.holds(t, appUser, token, true, map[string]string{"token": "two"})
				k.vault.put(hookKey, map[string]string{"token": "three"})
				pass(10 * time.Second)
				k.holds(t, appUser, token, true, map[string]string{"token": "three"})
				k.vault.cut(false)
				k.vault.delete(hookKey)
				k.vault.cut(compact)
				pass(20 * time.Second)
				k.holds(t, appUser, token, false, nil)
				k.vault.put(hookKey, map[string]string{"token": "four"})
				pass(10 * time.Second)
				k.holds(t, appUser, token, true, map[string]string{"token": "four"})
				if n := k.vault.reads(); n > 2 {
					t.Errorf("reads: got %d, want at most 2", n)
				}
			})
		})
	}
}

// Fails when a watch that ends at once is begun again without a growing delay.
func TestAWatchThatKeepsBreakingIsPacedOut(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.vault.put(hookKey, map[string]string{"token": "one"})
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		for range 600 {
			pass(time.Second)
			k.vault.cut(false)
		}
		if k.vault.watches > 40 {
			t.Errorf("%d watches in ten minutes", k.vault.watches)
		}
	})
}

// Fails when references are not counted per user, or when the watch of a Secret without users continues.
func TestASecretIsLetGoWithItsLastUser(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.vault.put(hookKey, map[string]string{"token": "one"})
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		k.holds(t, webUser, token, true, map[string]string{"token": "one"})
		pass(time.Second)
		k.Release(appUser)
		pass(time.Second)
		if n := k.vault.open(); n != 1 {
			t.Errorf("watches with one user left: got %d, want 1", n)
		}
		k.holds(t, webUser, Want{Name: "another", Keys: []string{"token"}}, false, nil) // its reference has changed
		pass(time.Second)
		if _, kept := k.entries[hookKey]; kept || k.vault.open() != 1 || len(k.entries) != 1 {
			t.Errorf("after the last user: kept %t, %d watches, %d entries", kept, k.vault.open(), len(k.entries))
		}
		k.vault.put(hookKey, map[string]string{"token": "two"})
		pass(time.Second)
		if told := k.takeTold(); told != nil {
			t.Errorf("told %v of a Secret that nobody uses", told)
		}
		k.Release(webUser)
		pass(time.Second)
		if len(k.entries)+len(k.held)+k.vault.open() != 0 {
			t.Error("something is left")
		}
	})
}

func TestASecondUserWithOtherKeysHasItReadAgain(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.vault.put(hookKey, map[string]string{"token": "one", "address": "x"})
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		pass(time.Second) // the watch's first event, with the second user's keys already known, would save the read
		k.holds(t, chatUser, Want{Name: "hook", Keys: []string{"address", "absent"}}, true, map[string]string{"address": "x"})
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		if n := k.vault.reads(); n != 2 {
			t.Errorf("reads: got %d, want 2", n)
		}
	})
}

// Fails when a slow read overwrites a change that the watch sent meanwhile: the old token would be served until the next read.
func TestAReadThatWasOvertakenChangesNothing(t *testing.T) {
	for name, state := range map[string]struct {
		before, after map[string]string
	}{
		"by a change":   {map[string]string{"token": "one"}, map[string]string{"token": "two"}},
		"by a creation": {nil, map[string]string{"token": "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			withSecrets(t, func(t *testing.T, k *keeper) {
				if state.before != nil {
					k.vault.put(hookKey, state.before)
				}
				k.holds(t, appUser, token, state.before != nil, state.before)
				pass(time.Second)
				k.vault.hold = make(chan struct{})
				done := make(chan error)
				go func() { done <- k.Refresh(t.Context(), appUser) }()
				synctest.Wait()
				k.vault.put(hookKey, state.after)
				pass(time.Second)
				close(k.vault.hold)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				k.holds(t, appUser, token, true, state.after)
			})
		})
	}
}

func TestAnAnswerAboutOneSecretIsIsolated(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		isolated bool
	}{
		"an internal error":      {apierrors.NewInternalError(errors.New("cannot decrypt")), true},
		"a refusal":              {apierrors.NewForbidden(corev1.Resource("secrets"), "hook", nil), true},
		"an API server away":     {errors.New("connection refused"), false},
		"an overloaded server":   {apierrors.NewTooManyRequests("later", 1), false},
		"a server that starts":   {apierrors.NewServiceUnavailable("starting"), false},
		"a request that expired": {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			withSecrets(t, func(t *testing.T, k *keeper) {
				k.vault.fail = func(kube.Key) error { return tc.err }
				_, err := k.Hold(t.Context(), appUser, token)
				if !errors.Is(err, tc.err) || kube.IsIsolated(err) != tc.isolated {
					t.Errorf("got %v, isolated %t", err, kube.IsIsolated(err))
				}
				k.vault.fail = nil
				k.holds(t, appUser, token, false, nil)
			})
		})
	}
}

// The rate limit of reads, not that of status writes, decides the duration of a start: 2,000 Secrets at 500 a second and a burst of
// 1,000.
func TestTwoThousandSecretsAreReadInSeconds(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		const n = 2000
		for i := range n {
			k.vault.put(kube.Key{Namespace: "team-a", Name: fmt.Sprintf("s%d", i)}, map[string]string{"token": "x"})
		}
		began := time.Now()
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := w; i < n; i += 16 {
					name := fmt.Sprintf("s%d", i)
					u := User{"Receiver", kube.Key{Namespace: "team-a", Name: name}}
					if _, err := k.Hold(t.Context(), u, Want{Name: name, Keys: []string{"token"}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %s", took)
		}
		pass(time.Minute)
		if open := k.vault.open(); open != n {
			t.Errorf("watches: got %d, want %d", open, n)
		}
	})
}

// Fails when the first read trusts an API server whose memory is behind that there is no Secret: webhooks would be answered 404. Fails
// when a Secret is read from that memory after a watch has sent it: nothing would correct it later.
func TestAnAPIServerThatIsBehindTakesNoSecretAway(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.vault.put(hookKey, map[string]string{"token": "one"})
		k.vault.behind = true
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		if err := k.Refresh(t.Context(), appUser); err != nil {
			t.Fatal(err)
		}
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
	})
}

// E7: fails when a log line, or an error made with %v, has a value.
func TestASecretDoesNotPrintItsValues(t *testing.T) {
	s := Secret{Found: true, Data: Values{{"token", "hush"}}}
	for _, printed := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), s.LogValue().String()} {
		if printed != "Secret{Found:true}" {
			t.Errorf("printed %q", printed)
		}
	}
}

// Fails when changed is not called for the first user of a missing Secret, after another's read, for other keys, found it.
func TestAUserOfAMissingSecretIsNotifiedWhenAnothersReadFindsIt(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.watches = rate.NewLimiter(0, 0) // so that no watch reports the change
		k.holds(t, chatUser, Want{Name: "hook", Keys: []string{"address"}}, false, nil)
		k.vault.put(hookKey, map[string]string{"token": "one", "address": "x"})
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		if told := k.takeTold(); !slices.Contains(told, chatUser) {
			t.Errorf("told: %v", told)
		}
	})
}

// Fails when changed is called for a user because another one wants more keys.
func TestThatAnotherWantsMoreKeysIsNoChange(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.vault.put(hookKey, map[string]string{"token": "one", "address": "x"})
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		k.holds(t, chatUser, Want{Name: "hook", Keys: []string{"address"}}, true, map[string]string{"address": "x"})
		if told := k.takeTold(); told != nil {
			t.Errorf("told: %v", told)
		}
	})
}

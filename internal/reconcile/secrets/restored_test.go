package secrets

import (
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/reconcile/kube"
)

var address = Want{Name: "hook", Keys: []string{"address"}}

// rotated holds a Secret, takes a backup, rotates the Secret, and makes and deletes others, so that versions grow.
func (k *keeper) rotated(t *testing.T) backup {
	t.Helper()
	k.vault.put(hookKey, map[string]string{"token": "one", "address": "x"})
	k.holds(t, appUser, token, true, map[string]string{"token": "one"})
	pass(time.Second)
	b := k.vault.backup()
	for range 10 {
		other := kube.Key{Namespace: "team-b", Name: "other"}
		k.vault.put(other, nil)
		k.vault.delete(other)
	}
	k.vault.put(hookKey, map[string]string{"token": "two", "address": "x"})
	pass(time.Second)
	k.holds(t, appUser, token, true, map[string]string{"token": "two"})
	return b
}

// Fails when a Secret is held as it was before the API server's store was restored from a backup, because its versions are older than those
// that were seen: nothing but a restart would read the credentials, for days.
func TestASecretIsHeldAsItIsAfterARestoreOfTheCluster(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		b := k.rotated(t)
		k.vault.goAway()
		k.vault.restore(b)
		pass(10 * time.Second)
		k.holds(t, appUser, token, true, map[string]string{"token": "one"})
		k.holds(t, chatUser, address, true, map[string]string{"address": "x"})
		k.takeTold()
		k.vault.put(hookKey, map[string]string{"token": "three"})
		pass(time.Second)
		k.holds(t, appUser, token, true, map[string]string{"token": "three"})
		if told := k.takeTold(); len(told) != 2 {
			t.Errorf("told of the change: %v", told)
		}
		k.vault.delete(hookKey)
		pass(time.Second)
		k.holds(t, appUser, token, false, nil)
		k.vault.put(hookKey, map[string]string{"token": "four"})
		pass(time.Second)
		k.holds(t, appUser, token, true, map[string]string{"token": "four"})
	})
}

// Fails when a Secret that is not in the backup is taken for the deleted one when it is made again, since its versions are older.
func TestASecretThatIsMadeAgainAfterARestoreIsNoticed(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		b := k.vault.backup()
		k.rotated(t)
		k.vault.goAway()
		k.vault.restore(b)
		pass(10 * time.Second)
		k.holds(t, appUser, token, false, nil)
		k.vault.put(hookKey, map[string]string{"token": "three"})
		pass(time.Second)
		k.holds(t, appUser, token, true, map[string]string{"token": "three"})
	})
}

// Fails when a watch that ended at its time, and could not begin again before the store was restored, goes on from the version of before: the
// API server sends nothing until that version is reached.
func TestAWatchDoesNotWaitForAVersionFromBeforeARestore(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		k.vault.timed = true
		b := k.rotated(t)
		k.vault.mu.Lock()
		k.vault.away = true // for new watches: those that are open end at their time
		k.vault.mu.Unlock()
		pass(maxWatchLife + time.Second)
		if n := k.vault.open(); n != 0 {
			t.Fatalf("%d watches are open", n)
		}
		k.vault.restore(b)
		pass(10 * time.Second)
		k.vault.put(hookKey, map[string]string{"token": "three"})
		pass(10 * time.Second)
		k.holds(t, appUser, token, true, map[string]string{"token": "three"})
	})
}

// Fails when a read that has ended late replaces what the watch sent since, because the Secret's version is again that of before the restore.
func TestALateReadDoesNotReplaceWhatTheWatchSentAfterARestore(t *testing.T) {
	withSecrets(t, func(t *testing.T, k *keeper) {
		b := k.vault.backup()
		k.rotated(t)
		before := k.vault.version
		k.vault.goAway()
		k.vault.restore(b)
		pass(time.Minute)
		k.holds(t, appUser, token, false, nil)
		late, hold, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		k.vault.late = late
		k.vault.put(hookKey, map[string]string{"token": "three"})
		synctest.Wait() // the watch has sent it, and has it read
		k.vault.late, k.vault.hold = nil, hold
		go func() { ended <- k.Refresh(t.Context(), appUser) }()
		synctest.Wait() // it has read the third token
		k.vault.hold, k.vault.version = nil, before-1
		k.vault.put(hookKey, map[string]string{"token": "four"})
		close(late)
		synctest.Wait()
		k.holds(t, appUser, token, true, map[string]string{"token": "four"})
		close(hold)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		k.holds(t, appUser, token, true, map[string]string{"token": "four"})
	})
}

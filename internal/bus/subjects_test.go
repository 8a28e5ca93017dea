package bus

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

func TestEveryStringIsOneTokenAndComesBack(t *testing.T) {
	tokens := map[string]string{}
	for s, want := range map[string]string{
		"": "=", "=": "=3d", "flux-system": "flux-system", "HelmRelease": "HelmRelease", "a.b": "a=2eb", "*": "=2a", ">": "=3e",
		"a b": "a=20b", "a=2eb": "a=3d2eb", "é": "=c3=a9", "\r\n": "=0d=0a", "_": "_",
	} {
		got := token(s)
		if got != want {
			t.Errorf("token(%q) = %q, want %q", s, got, want)
		}
		if other, taken := tokens[got]; taken {
			t.Errorf("%q and %q share a token", s, other)
		}
		tokens[got] = s
		if back, err := untoken(got); err != nil || back != s {
			t.Errorf("untoken(%q) = %q, %v", got, back, err)
		}
	}
	for _, bad := range []string{"=2", "a=", "=zz", "=-1"} {
		if s, err := untoken(bad); err == nil {
			t.Errorf("untoken(%q) = %q", bad, s)
		}
	}
}

func FuzzTokenIsSafeAndReversible(f *testing.F) {
	f.Add("my.app *>")
	f.Fuzz(func(t *testing.T, s string) {
		got := token(s)
		if got == "" || strings.ContainsAny(got, ".*> \t\r\n") {
			t.Errorf("token(%q) = %q", s, got)
		}
		if back, err := untoken(got); err != nil || back != s {
			t.Errorf("untoken(%q) = %q, %v", got, back, err)
		}
	})
}

func TestARetrySubjectTellsWhatTheOrderNeeds(t *testing.T) {
	d := testDelivery("id=x.y", "my.ns", "")
	d.Order = 1 << 63
	got, err := parseScheduledSubject(retrySubject(3, &d), interned{})
	must(t, err)
	want := event.Scheduled{ID: "id=x.y", Order: 1 << 63, Namespace: "my.ns", ObjectKey: event.ObjectKey(d.Object())}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(retrySubject(3, &d), "notifier.retry.3.my=2ens.=.") {
		t.Error(retrySubject(3, &d))
	}
	for _, bad := range []string{"", "notifier.retry.1.a.b.c", "notifier.retry.1.a.b.c.d", "notifier.retry.1.a.b.c.x-y", "notifier.retry.1.=.=z.c.1-y"} {
		if p, err := parseScheduledSubject(bad, interned{}); err == nil {
			t.Errorf("%q: %v", bad, p)
		}
	}
}

// Two replicas of different releases must agree, so these values never change.
func TestTheShardOfAKeyNeverChanges(t *testing.T) {
	for want, parts := range map[int][]string{12: {"team", "slack"}, 4: {"team"}} {
		if got := shardOf(16, parts...); got != want {
			t.Errorf("shard of %v is %d, was %d", parts, got, want)
		}
	}
}

// Fails when a delivery that waits, or the strings that others share with it, keep the server's answer in memory in which its subject was: it
// lists all of a shard.
func TestT6AWaitingDeliveryDoesNotKeepTheWholeListInMemory(t *testing.T) {
	const size = 64 << 20
	held := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	d := testDelivery("1", "team", "slack")
	before, shared := held(), interned{}
	answer := strings.Repeat("x", size) + retrySubject(3, &d)
	p, err := parseScheduledSubject(answer[size:], shared)
	must(t, err)
	answer = ""
	if kept := held() - before; kept > size/2 {
		t.Errorf("%d MiB are kept", kept>>20)
	}
	runtime.KeepAlive(answer)
	runtime.KeepAlive(p)
	runtime.KeepAlive(shared)
}

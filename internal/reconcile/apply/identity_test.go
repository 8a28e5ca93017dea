package apply

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"notifier/internal/event"
)

// T1: own namespace only. Fails when names or versions are joined to the path unchecked.
func TestT1NoNameReachesAnotherNamespace(t *testing.T) {
	for _, target := range []event.Target{
		repo("../../team-b/gitrepositories/app"), repo("../app"), repo(".."), repo("."), repo("a/b"), repo("%2e%2e%2fx"), repo(""),
		{APIVersion: "source.toolkit.fluxcd.io/v1/namespaces/team-b", Kind: "GitRepository", Name: "app"},
		{APIVersion: "../v1", Kind: "GitRepository", Name: "app"},
		{APIVersion: "source.toolkit.fluxcd.io/..", Kind: "GitRepository", Name: "app"},
		{APIVersion: "", Kind: "Nonsense", Name: "app"},
		{APIVersion: "", Kind: "../Nonsense", Name: "app"},
		{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "Tenant", Name: "team-b"}, // cluster-scoped
		{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "Nonsense", Name: "app"},
		{APIVersion: "example.com/v1", Kind: "Nonsense", Name: "*"},
	} {
		t.Run(target.APIVersion+" "+target.Kind+" "+target.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				h := w.hook(w.receiver("team-a", "github", "deployer", target))
				pass(time.Minute)
				if got := w.api.seen(); len(got) != 0 {
					t.Errorf("written: %+v", got)
				}
				if got := w.health("team-a/github"); len(got.Denied) != 1 {
					t.Errorf("shown: %+v", got)
				}
				pass(20 * time.Minute)
				w.want(h, "done")
			})
		})
	}
}

// T1 by the type that crosses the bus. Fails when resolve accepts a Receiver of another namespace.
func TestT1AReceiverOfAnotherNamespaceDoesNotAnswerForATrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		foreign := w.receiver("team-b", "github", "deployer", repo("app"))
		forged := trigger(foreign, foreign.Targets[0])
		forged.Namespace = "team-a"
		h := w.send(forged)
		pass(time.Second)
		w.want(h, "done")
		if got := w.api.seen(); len(got) != 0 {
			t.Errorf("written: %+v", got)
		}
	})
}

// T2 fails closed. Fails when identity accepts any of these, or when write sends a request without the header.
func TestT2WithoutAServiceAccountNothingIsWritten(t *testing.T) {
	for _, account := range []string{"", "a:b", "system:masters", "../x", "UPPER", "a b", "a\nb", strings.Repeat("a", 254)} {
		t.Run(account, func(t *testing.T) {
			if user, err := identity("team-a", account); !errors.Is(err, errIdentity) || user != "" {
				t.Errorf("identity %q, %v", user, err)
			}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				w.hook(w.receiver("team-a", "github", account, repo("app")))
				pass(time.Minute)
				if got := w.api.seen(); len(got) != 0 {
					t.Errorf("written: %+v", got)
				}
				if got := w.health("team-a/github"); len(got.Denied) != 1 {
					t.Errorf("shown: %+v", got)
				}
			})
		})
	}
	for _, namespace := range []string{"", "a:b", "a.b", "../x", "kube-system:x"} {
		if user, err := identity(namespace, "default"); !errors.Is(err, errIdentity) || user != "" {
			t.Errorf("namespace %q: identity %q, %v", namespace, user, err)
		}
	}
	if user, err := identity("team-a", "git.hub"); err != nil || user != "system:serviceaccount:team-a:git.hub" {
		t.Errorf("identity %q, %v", user, err)
	}
}

func TestT2AConfigurationThatImpersonatesIsRefused(t *testing.T) {
	for name, i := range map[string]rest.ImpersonationConfig{
		"a user": {UserName: "admin"}, "a UID": {UID: "1"}, "a group": {Groups: []string{"system:masters"}},
		"extras": {Extra: map[string][]string{"a": {"b"}}},
	} {
		if _, err := NewClient(&rest.Config{Host: "http://api.test", Impersonate: i}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

package reconcile

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
)

// T6: one write of a Secret has all Providers that name it compiled again, with keys and certificates that take milliseconds each. Fails when
// those of a namespace that has used up its time are compiled anyway, or when one with short Secrets, or of another namespace, waits with
// them.
func TestT6ProvidersWithLongSecretsAreCompiledInTheirNamespacesTurn(t *testing.T) {
	cert, key := selfSigned(t, slowText)
	long := func(namespace, cert string) *corev1.Secret {
		s := newSecret("tls", "ca.crt", cert, "tls.crt", cert, "tls.key", key)
		s.Namespace = namespace
		return s
	}
	withTLS := func(namespace string) *v1.Provider {
		return newProvider("chat", func(p *v1.Provider) { p.Namespace, p.Spec.CertSecretRef = namespace, ref("tls") })
	}
	plain := newProvider("plain", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })
	s := settings{
		objects: []runtime.Object{withTLS("team-a"), withTLS("team-b"), plain},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t"), long("team-a", cert), long("team-b", cert)},
	}
	play(t, s, func(w *world) {
		heavy := w.options.Destinations.Get("team-a", "chat")
		other, short := w.options.Destinations.Get("team-b", "chat"), w.options.Destinations.Get("team-a", "plain")
		if heavy == nil || heavy.Sender == nil {
			t.Fatal("not served")
		}
		w.owe("team-a")
		again := strings.Repeat(cert, 2)
		w.applySecret(long("team-a", again))
		w.applySecret(long("team-b", again))
		w.applySecret(newSecret("hook", "token", "another"))
		if w.options.Destinations.Get("team-a", "chat") != heavy {
			t.Error("the Provider was compiled, or is not served, before its turn")
		}
		if w.options.Destinations.Get("team-b", "chat") == other || w.options.Destinations.Get("team-a", "plain") == short {
			t.Error("a Provider of another namespace, or with a short Secret, waits")
		}
		pass(time.Minute)
		if now := w.options.Destinations.Get("team-a", "chat"); now == heavy || now.Sender == nil {
			t.Error("the Provider was not compiled in its turn")
		}
	})
}

// T6: fails when the expression of a Provider is compiled though its namespace has used up its time.
func TestT6ProvidersWithExpressionsAreCompiledInTheirNamespacesTurn(t *testing.T) {
	s := settings{objects: []runtime.Object{statusProvider("'x'")}, secrets: []*corev1.Secret{newSecret("token", "token", "t")}}
	play(t, s, func(w *world) {
		before := w.options.Destinations.Get("team-a", "chat")
		if before == nil || before.Sender == nil {
			t.Fatal("not served")
		}
		w.owe("team-a")
		w.applySecret(newSecret("token", "token", "another"))
		if w.options.Destinations.Get("team-a", "chat") != before {
			t.Error("the Provider was compiled, or is not served, before its turn")
		}
		pass(time.Minute)
		if now := w.options.Destinations.Get("team-a", "chat"); now == before || now.Sender == nil {
			t.Error("the Provider was not compiled in its turn")
		}
	})
}

// E2, E5: fails when a Provider that waits for its turn, after a start or when it was made anew, is taken for a deleted one: after a minute its
// waiting deliveries would be given up.
func TestE2AProviderThatWaitsForItsTurnIsNotTakenForGone(t *testing.T) {
	s := settings{
		objects: []runtime.Object{statusProvider("'x'")}, secrets: []*corev1.Secret{newSecret("token", "token", "t")},
		prepare: func(w *world) { w.owe("team-a") },
	}
	play(t, s, func(w *world) {
		waits := func(when string) {
			t.Helper()
			if d := w.options.Destinations.Get("team-a", "chat"); d == nil || d.Sender != nil || !strings.Contains(d.NotReady, "turn") {
				t.Errorf("%s: %+v", when, d)
			}
			pass(time.Minute)
			if d := w.options.Destinations.Get("team-a", "chat"); d == nil || d.Sender == nil {
				t.Errorf("%s: it was not compiled in its turn: %+v", when, d)
			}
		}
		waits("after the start")
		w.owe("team-a")
		again := statusProvider("'x'")
		again.UID = "another"
		w.apply(v1.ProviderKind, again)
		waits("when it was made anew")
	})
}

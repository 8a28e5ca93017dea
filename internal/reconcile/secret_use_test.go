package reconcile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
)

// The bounds on a kept value, of package secrets.
const (
	maxValue       = 32 << 10
	maxAuthorities = 256 << 10
)

func secretOf(t corev1.SecretType, name string, data ...string) *corev1.Secret {
	s := newSecret(name, data...)
	s.Type = t
	return s
}

// selfSigned returns a key and certificates in PEM: as many as fit into a number of bytes, and at least one.
func selfSigned(t *testing.T, fit int) (certs, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for i := int64(1); ; i++ {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(i), Subject: pkix.Name{CommonName: fmt.Sprint("ca", i)}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
		if err != nil {
			t.Fatal(err)
		}
		next := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		if i > 1 && len(certs)+len(next) > fit {
			return certs, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}))
		}
		certs += next
	}
}

// E7: fails when a Provider or a Receiver gets the value of a Secret that belongs to the cluster: its author may lack the right to read
// it.
func TestE7ASecretThatBelongsToTheClusterIsNotUsed(t *testing.T) {
	for kind, denied := range map[corev1.SecretType]bool{
		corev1.SecretTypeServiceAccountToken: true, corev1.SecretTypeDockerConfigJson: true, corev1.SecretTypeBasicAuth: true,
		corev1.SecretTypeSSHAuth: true, corev1.SecretTypeBootstrapToken: true, corev1.SecretTypeTLS: true,
		"helm.sh/release.v1": true, "cluster.x-k8s.io/secret": true, "kubernetes.io/": true,
		corev1.SecretTypeOpaque: false, "": false, "example.com/webhook": false, "notkubernetes.io/x": false, "kubernetes.io": false,
	} {
		t.Run(string(kind), func(t *testing.T) {
			secrets := []*corev1.Secret{secretOf(kind, "s", "token", "hush", "address", "https://hush.example.com")}
			receiver := newReceiver("app", func(r *v1.Receiver) { r.Spec.SecretRef.Name = "s" })
			provider := newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("s") })
			proxied := newProvider("proxied", func(p *v1.Provider) { p.Spec.ProxySecretRef = ref("s") })
			play(t, settings{objects: []apiruntime.Object{receiver, provider, proxied}, secrets: secrets}, func(w *world) {
				want := "True Succeeded"
				if denied {
					want = "False SecretDenied"
				}
				for name, message := range map[string]string{
					"app": w.ready("Receiver", "app", want), "chat": w.ready("Provider", "chat", want), "proxied": w.ready("Provider", "proxied", want),
				} {
					if strings.Contains(message, "hush") || denied && !strings.Contains(message, `Secret "s"`) {
						t.Errorf("%s is told: %s", name, message)
					}
				}
				if served := w.hooks.get("team-a/app") != nil; served == denied {
					t.Errorf("Receiver served: %t", served)
				}
				if denied { // the owner's remedy is to replace it
					w.removeSecret("s")
					w.applySecret(newSecret("s", "token", "mine", "address", "https://example.com"))
					w.ready("Provider", "chat", "True Succeeded")
					w.ready("Receiver", "app", "True Succeeded")
				}
			})
		})
	}
}

// A token that its type cannot use is corrected in the Secret, without an edit of the Receiver. Fails when the Receiver is Stalled, after which
// Flux's health checks wait no longer.
func TestAReceiverWaitsForATokenThatItsTypeCanUse(t *testing.T) {
	const signing = "whsec_cmVwbGFjZS10aGlzLWJ5LTMyLXJhbmRvbS1ieXRlcyE="
	for name, tc := range map[string]struct{ kind, token, reason, mended string }{
		"a token that is too long":      {v1.GenericReceiver, strings.Repeat("a", maxValue+1), v1.InvalidConfigReason, "t1"},
		"a signing secret that is none": {v1.StandardWebhooksReceiver, "t1", v1.ValidationFailedReason, signing},
	} {
		t.Run(name, func(t *testing.T) {
			object := newReceiver("app", func(r *v1.Receiver) { r.Spec.Type = tc.kind })
			play(t, settings{objects: []apiruntime.Object{object}, secrets: []*corev1.Secret{newSecret("hook", "token", tc.token)}}, func(w *world) {
				w.ready("Receiver", "app", "False "+tc.reason)
				stalled, _ := w.condition("Receiver", "app", v1.StalledCondition)
				reconciling, _ := w.condition("Receiver", "app", v1.ReconcilingCondition)
				if stalled != "" || reconciling != "True ProgressingWithRetry" {
					t.Errorf("stalled %q, reconciling %q", stalled, reconciling)
				}
				w.applySecret(newSecret("hook", "token", tc.mended))
				w.ready("Receiver", "app", "True Succeeded")
			})
		})
	}
}

// Flux's documentation makes a Secret of type kubernetes.io/tls for certSecretRef. Fails when it is refused there, or when other keys
// than the certificate, its key and the authority are used.
func TestASecretOfTypeTLSIsForTLSAlone(t *testing.T) {
	cert, key := selfSigned(t, 0)
	tls := secretOf(corev1.SecretTypeTLS, "tls", "ca.crt", cert, "tls.crt", cert, "tls.key", key, "token", "hush")
	account := secretOf(corev1.SecretTypeServiceAccountToken, "account", "ca.crt", cert, "token", "hush")
	withCert := func(name, secret string) *v1.Provider {
		return newProvider(name, func(p *v1.Provider) { p.Spec.CertSecretRef = ref(secret) })
	}
	both := withCert("both", "tls")
	both.Spec.SecretRef = ref("tls")
	s := settings{
		objects: []apiruntime.Object{withCert("good", "tls"), withCert("bad", "account"), both},
		secrets: []*corev1.Secret{tls, account},
	}
	play(t, s, func(w *world) {
		w.ready("Provider", "good", "True Succeeded")
		w.ready("Provider", "bad", "False SecretDenied")
		w.ready("Provider", "both", "False SecretDenied")
	})
}

// Fails when a Secret without the label is used in an installation that requires it, or when adding and removing the label is not
// noticed.
func TestOnlyLabelledSecretsAreUsedWhereThatIsRequired(t *testing.T) {
	labelled := func(token string) *corev1.Secret {
		s := newSecret("hook", "token", token)
		s.Labels = map[string]string{"notification.toolkit.fluxcd.io/secret": "Enabled"}
		return s
	}
	s := settings{
		objects: []apiruntime.Object{newReceiver("app"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })},
		secrets: []*corev1.Secret{newSecret("hook", "token", "hush")},
		change:  func(o *Options) { o.RequireSecretLabel = true },
	}
	play(t, s, func(w *world) {
		message := w.ready("Provider", "chat", "False SecretDenied")
		if !strings.Contains(message, "notification.toolkit.fluxcd.io/secret: Enabled") {
			t.Errorf("message: %s", message)
		}
		w.ready("Receiver", "app", "False SecretDenied")
		pass(10 * time.Second)
		w.applySecret(labelled("hush"))
		w.ready("Provider", "chat", "True Succeeded")
		w.ready("Receiver", "app", "True Succeeded")
		w.applySecret(newSecret("hook", "token", "hush"))
		w.ready("Provider", "chat", "False SecretDenied")
		w.ready("Receiver", "app", "False SecretDenied")
		if w.hooks.get("team-a/app") != nil {
			t.Error("the Receiver is still served")
		}
	})
}

// Fails when a value over its bound is used or kept, or when the condition does not report it.
func TestAValueOverItsBoundIsRefused(t *testing.T) {
	long := strings.Repeat("hush", maxValue/4) + "!"
	s := settings{
		objects: []apiruntime.Object{newReceiver("app"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })},
		secrets: []*corev1.Secret{newSecret("hook", "token", long)},
	}
	play(t, s, func(w *world) {
		for _, message := range []string{
			w.ready("Receiver", "app", "False InvalidConfig"), w.ready("Provider", "chat", "False InvalidConfig"),
		} {
			if !strings.Contains(message, "token") || strings.Contains(message, "hush") {
				t.Errorf("message: %s", message)
			}
		}
		w.applySecret(newSecret("hook", "token", long[1:]))
		w.ready("Receiver", "app", "True Succeeded")
		w.ready("Provider", "chat", "True Succeeded")
		w.applySecret(newSecret("hook", "token", long))
		w.ready("Receiver", "app", "False InvalidConfig")
	})
}

// T6: fails when each object that names a large Secret has a copy of it.
func TestT6ALargeSecretIsKeptOnceForAllItsUsers(t *testing.T) {
	const n = 300
	certs, _ := selfSigned(t, maxAuthorities)
	value := strings.Repeat("x", maxValue)
	data := []string{
		"token", value, "username", value, "password", value, "address", "https://example.com", "other", strings.Repeat("y", 700<<10),
		"ca.crt", certs,
	}
	s := settings{secrets: []*corev1.Secret{newSecret("big", data...)}}
	for i := range n {
		s.objects = append(s.objects, newProvider(fmt.Sprintf("p%d", i), func(p *v1.Provider) {
			p.Spec.SecretRef, p.Spec.CertSecretRef = ref("big"), ref("big")
			p.Spec.Type = v1.SlackProvider
			p.Spec.Channel = "general"
		}))
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	play(t, s, func(w *world) {
		w.ready("Provider", "p0", "True Succeeded")
		if grown := (heap() - before) >> 20; grown > 24 {
			t.Errorf("%d objects that name one Secret of 1 MiB grew the heap by %d MiB", n, grown)
		}
	})
}

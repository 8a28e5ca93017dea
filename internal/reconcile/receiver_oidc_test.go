package reconcile

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
)

// oidcReceiver returns a Receiver of type generic-oidc that is served.
func oidcReceiver(change ...func(*v1.Receiver)) *v1.Receiver {
	return newReceiver("app", append([]func(*v1.Receiver){func(r *v1.Receiver) {
		r.Spec.Type, r.Spec.SecretRef = v1.GenericOIDCReceiver, nil
		r.Spec.OIDCProviders = []v1.OIDCProvider{{
			IssuerURL:   "https://issuer.test",
			Variables:   []v1.OIDCVariable{{Name: "owner", Expression: "claims.owner"}},
			Validations: []v1.OIDCValidation{{Expression: `vars.owner == "org"`, Message: "not our organisation"}},
		}}
	}}, change...)...)
}

// Fails when a Secret is read, when the path differs from Flux's for an empty token, and when a Receiver that had a Secret before keeps
// it.
func TestAReceiverOfTokensHasNoSecret(t *testing.T) {
	play(t, settings{objects: []runtime.Object{oidcReceiver()}}, func(w *world) {
		hook := w.hooks.get("team-a/app")
		if hook == nil || hook.Path != path("", "app") || hook.Verifier.Type() != "generic-oidc" {
			t.Fatalf("served: %+v", hook)
		}
		w.ready("Receiver", "app", "True Succeeded")
		if read := gets(w); len(read) > 0 {
			t.Errorf("Secrets that were read: %v", read)
		}
	})
	play(t, oneReceiver(), func(w *world) {
		w.apply("Receiver", oidcReceiver())
		w.ready("Receiver", "app", "True Succeeded")
		before := len(gets(w))
		w.applySecret(newSecret("hook", "token", "other"))
		pass(2 * time.Hour)
		if got := len(gets(w)); got != before {
			t.Errorf("the Secret of an earlier spec was read %d times", got-before)
		}
		if got := w.hooks.get("team-a/app"); got == nil || got.Path != path("", "app") {
			t.Errorf("served: %+v", got)
		}
	})
}

// Fails when a mistake in the spec is reported under another reason than Flux's, or without its place.
func TestAFaultyOIDCReceiverIsNotServed(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1.Receiver)
		reason string
		says   string
		event  string
	}{
		"no providers": {
			func(r *v1.Receiver) { r.Spec.OIDCProviders = nil },
			v1.ValidationFailedReason, "spec.oidcProviders needs at least one entry", "ValidationFailed",
		},
		"no validations": {
			func(r *v1.Receiver) { r.Spec.OIDCProviders[0].Validations = nil },
			v1.ValidationFailedReason, "spec.oidcProviders[0].validations needs at least one entry", "ValidationFailed",
		},
		"a Secret": {
			func(r *v1.Receiver) { r.Spec.SecretRef = &v1.LocalObjectReference{Name: "hook"} },
			v1.ValidationFailedReason, "takes no spec.secretRef", "ValidationFailed",
		},
		"providers of another type": {
			func(r *v1.Receiver) {
				r.Spec.Type, r.Spec.SecretRef = v1.GitHubReceiver, &v1.LocalObjectReference{Name: "hook"}
			},
			v1.ValidationFailedReason, `spec.oidcProviders is for type generic-oidc, not "github"`, "ValidationFailed",
		},
		"more than 8 KiB of expressions": {
			func(r *v1.Receiver) {
				for range 31 {
					r.Spec.OIDCProviders[0].Variables = append(r.Spec.OIDCProviders[0].Variables, v1.OIDCVariable{
						Name: "v", Expression: `"` + strings.Repeat("x", 300) + `"`,
					})
				}
			},
			v1.LimitExceededReason, "the expressions of spec.oidcProviders, have more than 8192 characters together", "ValidationFailed",
		},
		"more than 16 KiB of messages": {
			func(r *v1.Receiver) { r.Spec.OIDCProviders[0].Validations[0].Message = strings.Repeat("x", 17<<10) },
			v1.LimitExceededReason, "messages of spec.oidcProviders have more than 16384 characters together", "ValidationFailed",
		},
		"a variable that is no CEL": {
			func(r *v1.Receiver) { r.Spec.OIDCProviders[0].Variables[0].Expression = "claims." },
			v1.InvalidCELExpressionReason, "spec.oidcProviders[0].variables[0].expression: ERROR", "InvalidCELExpression",
		},
		"a validation that is not bool": {
			func(r *v1.Receiver) { r.Spec.OIDCProviders[0].Validations[0].Expression = "vars.owner" },
			v1.InvalidCELExpressionReason, "gives dyn and not bool: compare it", "InvalidCELExpression",
		},
		"several expressions that do not compile, each is named": {
			func(r *v1.Receiver) {
				other := *r.Spec.OIDCProviders[0].DeepCopy()
				other.IssuerURL = "https://other.example.com"
				other.Validations[0].Expression = "claim.a"
				r.Spec.OIDCProviders = append(r.Spec.OIDCProviders, other)
				r.Spec.OIDCProviders[0].Variables[0].Expression = "vars."
				r.Spec.OIDCProviders[0].Validations[0].Expression = "vars.owner"
			},
			v1.InvalidCELExpressionReason, "; spec.oidcProviders[0].validations[0].expression: expression gives dyn and not bool: compare it, " +
				"such as with \"== true\"; spec.oidcProviders[1].validations[0].expression: ERROR", "InvalidCELExpression",
		},
		"faulty expressions with long texts, the condition is cut": {
			func(r *v1.Receiver) {
				for range 20 {
					r.Spec.OIDCProviders[0].Variables = append(r.Spec.OIDCProviders[0].Variables, v1.OIDCVariable{
						Name: "v", Expression: strings.Repeat("x", 300) + ".",
					})
				}
			},
			v1.InvalidCELExpressionReason, "…", "InvalidCELExpression",
		},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := []*corev1.Secret{newSecret("hook", "token", "t1")}
			play(t, settings{objects: []runtime.Object{oidcReceiver()}, secrets: secrets}, func(w *world) {
				w.events.take()
				w.apply("Receiver", oidcReceiver(tc.change))
				if w.hooks.get("team-a/app") != nil {
					t.Error("still served")
				}
				message := w.ready("Receiver", "app", "False "+tc.reason)
				if !strings.Contains(message, tc.says) || strings.Contains(message, "\n") {
					t.Errorf("message: got %q, want %q in it", message, tc.says)
				}
				if stalled, _ := w.condition("Receiver", "app", v1.StalledCondition); stalled == "" {
					t.Error("not stalled")
				}
				if events := w.events.take(); len(events) != 1 || !strings.Contains(events[0], "Warning "+tc.event+": ") {
					t.Errorf("events: %q", events)
				}
				w.apply("Receiver", oidcReceiver())
				w.ready("Receiver", "app", "True Succeeded")
			})
		})
	}
}

// Fails when a Receiver is compiled again without a change of its spec and its Secret, which a tenant could cause at will by an
// annotation. Fails when it is not compiled again after such a change.
func TestAReceiverIsCompiledOncePerChange(t *testing.T) {
	filtered := func(r *v1.Receiver) { r.Spec.ResourceFilter = `req.a == 1` }
	for name, changed := range map[string]func(...func(*v1.Receiver)) *v1.Receiver{
		"tokens of an issuer": oidcReceiver,
		"a Secret": func(change ...func(*v1.Receiver)) *v1.Receiver {
			return newReceiver("app", change...)
		},
	} {
		secrets := []*corev1.Secret{newSecret("hook", "token", "t1")}
		play(t, settings{objects: []runtime.Object{changed(filtered)}, secrets: secrets}, func(w *world) {
			first := w.hooks.get("team-a/app")
			live := w.live("Receiver", "app").DeepCopyObject().(*v1.Receiver)
			live.Annotations = map[string]string{v1.ReconcileRequestAnnotation: "now"}
			if err := w.cluster.Tracker.Update(resources["Receiver"], live, "team-a"); err != nil {
				t.Fatal(err)
			}
			pass(time.Hour)
			if status := w.live("Receiver", "app").(*v1.Receiver).Status; status.LastHandledReconcileAt != "now" {
				t.Errorf("%s: the annotation is not handled", name)
			}
			if w.hooks.get("team-a/app") != first {
				t.Errorf("%s: compiled again", name)
			}
			w.apply("Receiver", changed(func(r *v1.Receiver) { r.Spec.Suspend = true }))
			second := w.hooks.get("team-a/app")
			if second == first || !second.Suspended || second.Filter != nil {
				t.Errorf("%s: not compiled after a change of the spec", name)
			}
			w.applySecret(newSecret("hook", "token", "t2"))
			if (w.hooks.get("team-a/app") == second) != (name == "tokens of an issuer") {
				t.Errorf("%s: wrong after a change of the Secret", name)
			}
		})
	}
}

// Fails when a key of the Secret that the type needs is not read, or when the condition does not name a missing key.
func TestAReceiverOfGoogleNeedsItsKeys(t *testing.T) {
	google := newReceiver("app", func(r *v1.Receiver) { r.Spec.Type = v1.GCRReceiver })
	secret := newSecret("hook", "token", "t")
	secret.Data["email"] = []byte("pusher@project.iam.gserviceaccount.com")
	play(t, settings{objects: []runtime.Object{google}, secrets: []*corev1.Secret{secret}}, func(w *world) {
		if message := w.ready("Receiver", "app", "False TokenNotFound"); message != `Secret "hook", named by spec.secretRef, has no key "audience", or it is empty: write it there, or correct the name` {
			t.Errorf("message: %q", message)
		}
		if w.hooks.get("team-a/app") != nil {
			t.Error("served")
		}
		mended := secret.DeepCopy()
		mended.Data["audience"] = []byte("https://notifier.example.com")
		w.applySecret(mended)
		w.ready("Receiver", "app", "True Succeeded")
		if hook := w.hooks.get("team-a/app"); hook == nil || hook.Path != path("t", "app") || hook.Verifier.Type() != "gcr" {
			t.Errorf("served: %+v", hook)
		}
	})
}

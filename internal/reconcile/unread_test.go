package reconcile

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
	"notifier/internal/receiver/receivertest"
)

// Fails when a requested read of a Secret that the API server refuses is forgotten after its first failure: the object would be shown as
// ready with the values of before, and the request as done.
func TestARequestedReadOfASecretIsRepeatedUntilItSucceeds(t *testing.T) {
	asked := map[string]string{v1.ReconcileRequestAnnotation: "now"}
	s := settings{
		objects: []runtime.Object{newReceiver("app"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
	}
	var refused atomic.Bool
	s.prepare = func(w *world) {
		w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if refused.Load() {
				return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "hook", errors.New("no"))
			}
			return false, nil, nil
		})
	}
	play(t, s, func(w *world) {
		refused.Store(true)
		w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) { r.Annotations = asked }))
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Annotations, p.Spec.SecretRef = asked, ref("hook") }))
		pass(time.Minute)
		w.ready("Receiver", "app", "False ProgressingWithRetry")
		w.ready("Provider", "chat", "False ProgressingWithRetry")
		if w.hooks.get("team-a/app") == nil || w.options.Destinations.Get("team-a", "chat").Sender == nil {
			t.Error("no longer served")
		}
		refused.Store(false)
		pass(2 * time.Minute)
		w.ready("Receiver", "app", "True Succeeded")
		w.ready("Provider", "chat", "True Succeeded")
	})
}

// Fails when an Alert is reported as unable to reach a Provider whose Secret has only not been read yet, with an Event that warns of it.
func TestAnAlertWaitsForTheFirstVerdictOnItsProvider(t *testing.T) {
	var away atomic.Bool
	s := settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	s.prepare = func(w *world) {
		w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if away.Load() {
				return true, nil, apierrors.NewServiceUnavailable("starting")
			}
			return false, nil, nil
		})
	}
	play(t, s, func(w *world) {
		away.Store(true)
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") }))
		w.apply("Alert", newAlert("alert"))
		if got, message := w.condition("Alert", "alert", v1.ServingCondition); got != "" {
			t.Errorf("before the Provider is known: %q %q", got, message)
		}
		away.Store(false)
		pass(time.Minute)
		w.ready("Alert", "alert", "True Succeeded")
		for _, e := range w.events.take() {
			if strings.Contains(e, " Warning ") {
				t.Errorf("event: %s", e)
			}
		}
	})
}

// Fails when a Provider or a Receiver that is suspended while its Secret cannot be read is served as before until the Secret can be read. Fails
// when the Receiver's path is unknown meanwhile, or the Provider's Alert says that events are kept, which are not.
func TestASuspensionIsEffectiveWhileTheSecretCannotBeRead(t *testing.T) {
	for name, cause := range map[string]error{
		"the API server is away": apierrors.NewServiceUnavailable("starting"),
		"a refusal":              apierrors.NewForbidden(corev1.Resource("secrets"), "hook", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			var away atomic.Bool
			s := settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
			s.objects = []runtime.Object{newReceiver("app"), newAlert("alert"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })}
			s.prepare = func(w *world) {
				w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					return away.Load(), nil, cause
				})
			}
			play(t, s, func(w *world) {
				apply := func(suspend bool, asked string) {
					annotations := map[string]string{v1.ReconcileRequestAnnotation: asked}
					w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) { r.Annotations, r.Spec.Suspend = annotations, suspend }))
					w.apply("Provider", newProvider("chat", func(p *v1.Provider) {
						p.Annotations, p.Spec.SecretRef, p.Spec.Suspend = annotations, ref("hook"), suspend
					}))
				}
				away.Store(true)
				apply(true, "now")
				if hook := w.hooks.get("team-a/app"); hook == nil || !hook.Suspended {
					t.Error("the suspended Receiver takes webhooks, or its sender is told that there is none")
				}
				if d := w.options.Destinations.Get("team-a", "chat"); !d.Suspended {
					t.Error("the suspended Provider is sent to")
				}
				if says := w.ready("Alert", "alert", "False Suspended"); !strings.Contains(says, "is not kept") {
					t.Errorf("its Alert says: %s", says)
				}
				away.Store(false)
				apply(false, "later")
				pass(2 * time.Minute)
				if hook := w.hooks.get("team-a/app"); hook == nil || hook.Suspended {
					t.Error("the resumed Receiver takes no webhooks")
				}
				if d := w.options.Destinations.Get("team-a", "chat"); d.Suspended || d.Sender == nil {
					t.Error("the resumed Provider is not sent to")
				}
				w.ready("Alert", "alert", "True Succeeded")
			})
		})
	}
}

// Fails when the destination of a Provider whose Secret cannot be read is that of a former Provider of its name, which could not be read
// either: the deliveries that wait for it, and the requests of its owner, would be the former one's.
func TestAProviderThatIsMadeAnewHasADestinationOfItsOwn(t *testing.T) {
	s := settings{prepare: func(w *world) {
		w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewServiceUnavailable("starting")
		})
	}}
	play(t, s, func(w *world) {
		for _, uid := range []types.UID{"former", "present"} {
			w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.UID, p.Spec.SecretRef = uid, ref("hook") }))
			if d := w.options.Destinations.Get("team-a", "chat"); d == nil || d.UID != string(uid) {
				t.Errorf("the destination of %s: %+v", uid, d)
			}
		}
	})
}

// E2: a suspended Provider's events are not kept, nor are those for one of an unsupported type. Fails when that goes on after the owner has
// resumed the Provider, or corrected its type, because it cannot be compiled yet, or when the Provider's Alert says so.
func TestE2AResumedProviderKeepsEventsWhileItCannotBeCompiled(t *testing.T) {
	refusal := apierrors.NewForbidden(corev1.Resource("secrets"), "other", errors.New("no"))
	for name, cause := range map[string]error{
		"the API server is away": apierrors.NewServiceUnavailable("starting"), "a refusal": refusal, "its turn is later": nil,
	} {
		for state, change := range map[string]func(*v1.Provider){
			"suspended":   func(p *v1.Provider) { p.Spec.Suspend = true },
			"unsupported": func(p *v1.Provider) { p.Spec.Type = "unheard-of" },
		} {
			t.Run(name+", it was "+state, func(t *testing.T) {
				s := settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t"), newSecret("other", "token", "t")}}
				s.objects = []runtime.Object{newAlert("all"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") }, change)}
				var back atomic.Bool
				s.prepare = func(w *world) {
					w.core.PrependReactor("get", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
						return cause != nil && !back.Load() && a.(clienttesting.GetAction).GetName() == "other", nil, cause
					})
				}
				play(t, s, func(w *world) {
					resumed := newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("other") })
					if cause == nil {
						resumed.Spec.CommitStatusExpr = "'x'"
						w.owe("team-a")
					}
					w.apply("Provider", resumed)
					if d := w.options.Destinations.Get("team-a", "chat"); d.Suspended || d.Unsupported || d.NotReady == "" {
						t.Errorf("suspended %t, unsupported %t, %q", d.Suspended, d.Unsupported, d.NotReady)
					}
					if says := w.ready("Alert", "all", "False ProviderNotReady"); !strings.HasSuffix(says, "events are kept for it") {
						t.Errorf("its Alert says: %s", says)
					}
					back.Store(true)
					pass(2 * time.Minute)
					if d := w.options.Destinations.Get("team-a", "chat"); d.Sender == nil {
						t.Errorf("it is not in use: %q", d.NotReady)
					}
					w.ready("Alert", "all", "True Succeeded")
				})
			})
		}
	}
}

// Fails when after a start a genuine webhook to a Receiver whose Secret the API server does not return is answered 404, which a sender may take
// for the Receiver's end, also after a further start; or when its status no longer has the path meanwhile. Also fails when a path that only a
// tenant's status names is taken from the Receiver that serves it.
func TestAReceiverWhoseSecretCannotBeReadIsNotUnknownToItsSenders(t *testing.T) {
	table, err := receiver.NewTable(receiver.DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return receiver.Path("t", name, "team-a") }
	broken := newReceiver("broken", func(r *v1.Receiver) {
		r.Spec.SecretRef.Name, r.Status.WebhookPath = "broken", at("broken")
	})
	other := newReceiver("other", func(r *v1.Receiver) { r.Spec.SecretRef.Name, r.Status.WebhookPath = "broken", at("app") })
	var refused atomic.Bool
	refused.Store(true)
	s := settings{
		objects: []runtime.Object{newReceiver("app"), broken, other}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
		change: func(o *Options) { o.Hooks = table },
		prepare: func(w *world) {
			w.core.PrependReactor("get", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return refused.Load() && a.(clienttesting.GetAction).GetName() == "broken", nil, apierrors.NewInternalError(errors.New("cannot decrypt"))
			})
		},
	}
	play(t, s, func(w *world) {
		<-w.Complete()
		w.settle()
		webhooks, err := receiver.NewWebhooks(receiver.WebhooksOptions{Table: table, Triggers: &receivertest.Recorder{}, Log: discard()})
		if err != nil {
			t.Fatal(err)
		}
		want := func(status int, path string) {
			t.Helper()
			if got := receivertest.Do(webhooks, receivertest.Push(path, "wrong", "{}")).StatusCode; got != status {
				t.Errorf("answered %d, want %d", got, status)
			}
		}
		want(http.StatusServiceUnavailable, at("broken"))
		want(http.StatusBadRequest, at("app")) // its signature is checked
		want(http.StatusNotFound, at("unknown"))
		w.ready("Receiver", "broken", "False ProgressingWithRetry")
		if got := w.live("Receiver", "broken").(*v1.Receiver).Status.WebhookPath; got != at("broken") {
			t.Errorf("the status has the path %q", got)
		}
		refused.Store(false)
		w.applySecret(newSecret("broken", "token", "t"))
		pass(2 * time.Minute)
		want(http.StatusBadRequest, at("broken"))
		w.remove("Receiver", "broken")
		want(http.StatusNotFound, at("broken"))
	})
}

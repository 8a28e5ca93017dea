package reconcile

import (
	"context"
	"sync"
	"testing"
	"time"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// watchedSecrets counts the watches of each Secret that have not ended.
type watchedSecrets struct {
	secrets.Source
	mu   sync.Mutex
	open map[string]int
}

func (s *watchedSecrets) Watch(ctx context.Context, k kube.Key, version string, most time.Duration) (secrets.Watch, error) {
	w, err := s.Source.Watch(ctx, k, version, most)
	if err == nil {
		s.add(k.Name, 1)
		context.AfterFunc(ctx, func() { s.add(k.Name, -1) })
	}
	return w, err
}

func (s *watchedSecrets) add(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[name] += n
}

func (s *watchedSecrets) watched(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name] > 0
}

// T6: each watch of a Secret is a connection of the API server. Fails when one stays that no object needs any more.
func TestT6ASecretIsWatchedAsLongAsAnObjectUsesIt(t *testing.T) {
	provider := newProvider("user", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })
	for name, tc := range map[string]struct {
		kind       string
		user, then kube.Object // nil when it is deleted
	}{
		"until the Provider is deleted":    {v1.ProviderKind, provider, nil},
		"until the Provider needs none":    {v1.ProviderKind, provider, newProvider("user")},
		"until the Receiver is deleted":    {v1.ReceiverKind, newReceiver("user"), nil},
		"until the Receiver needs none":    {v1.ReceiverKind, newReceiver("user"), newEventReceiver("user")},
		"until the Receiver names another": {v1.ReceiverKind, newReceiver("user"), newReceiver("user", func(r *v1.Receiver) { r.Spec.SecretRef.Name = "other" })},
		"until the Receiver names another, and is refused": {v1.ReceiverKind, newReceiver("user"), newReceiver("user", func(r *v1.Receiver) {
			r.Spec.SecretRef.Name, r.Spec.Resources[0].Namespace = "other", "elsewhere"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			counted := &watchedSecrets{open: map[string]int{}}
			play(t, settings{change: func(o *Options) {
				counted.Source, o.Clients.Secrets = o.Clients.Secrets, counted
			}}, func(w *world) {
				w.applySecret(newSecret("hook", "token", "secret"))
				w.apply(tc.kind, tc.user)
				w.settle()
				if !counted.watched("hook") {
					t.Error("it is not watched")
				}
				if tc.then == nil {
					w.remove(tc.kind, "user")
				} else {
					tc.then.SetGeneration(2)
					w.apply(tc.kind, tc.then)
				}
				pass(time.Minute)
				if counted.watched("hook") {
					t.Error("it is still watched")
				}
			})
		})
	}
}

package reconcile

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
)

// takes reports whether a hook of type gitlab accepts a token.
func takes(t *testing.T, hook *receiver.Hook, token string) bool {
	t.Helper()
	_, err := hook.Verifier.Begin(context.Background(), http.Header{"X-Gitlab-Token": {token}})
	return err == nil
}

// Fails when tokenPrevious is not read, when a path is verified with the other path's token, or when the previous path is shown. Fails
// when the hook of the previous token is not marked as such, and when an unusable or equal previous token makes a second hook.
func TestTwoTokensAreLiveDuringARotation(t *testing.T) {
	gitlab := newReceiver("app", func(r *v1.Receiver) { r.Spec.Type = v1.GitLabReceiver })
	s := settings{objects: []runtime.Object{gitlab}, secrets: []*corev1.Secret{newSecret("hook", "token", "old")}}
	play(t, s, func(w *world) {
		w.applySecret(newSecret("hook", "token", "new", "tokenPrevious", "old"))
		hooks := w.hooks.all("team-a/app")
		if len(hooks) != 2 || hooks[0].Path != path("new", "app") || hooks[1].Path != path("old", "app") {
			t.Fatalf("hooks: %+v", hooks)
		}
		for i, own := range []string{"new", "old"} {
			other := []string{"old", "new"}[i]
			if !takes(t, hooks[i], own) || takes(t, hooks[i], other) {
				t.Errorf("the path of %s takes its own token: %t, the other one: %t", own, takes(t, hooks[i], own), takes(t, hooks[i], other))
			}
			if len(hooks[i].Targets) != 1 || hooks[i].Previous != (own == "old") {
				t.Errorf("the path of %s: %+v", own, hooks[i])
			}
		}
		if got := w.live("Receiver", "app").(*v1.Receiver).Status.WebhookPath; got != path("new", "app") {
			t.Errorf("status shows %s", got)
		}
		for name, previous := range map[string]string{"empty": "", "equal": "new"} {
			w.applySecret(newSecret("hook", "token", "new", "tokenPrevious", previous))
			if hooks := w.hooks.all("team-a/app"); len(hooks) != 1 || hooks[0].Path != path("new", "app") {
				t.Errorf("with an %s previous token: %+v", name, hooks)
			}
		}
		w.ready("Receiver", "app", "True Succeeded")
		// The previous token alone makes no hook.
		w.applySecret(newSecret("hook", "tokenPrevious", "old"))
		w.ready("Receiver", "app", "False TokenNotFound")
		if hooks := w.hooks.all("team-a/app"); len(hooks) != 0 {
			t.Errorf("without a token: %+v", hooks)
		}
	})
}

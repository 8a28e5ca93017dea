package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"notifier/test/env"
)

// E1: events that were accepted before a crash are not for the new tenant, if the namespace was deleted and made again
// meanwhile. Fails when an Alert gets events that were accepted before it was made.
func TestE1EventsFromBeforeACrashAreNotForTheNamespacesNewOwner(t *testing.T) {
	s := scoped(t)
	sink, message := s.NewSink(), func(text string) []byte {
		event, err := json.Marshal(map[string]any{
			"involvedObject": map[string]any{
				"kind": "Kustomization", "namespace": s.Tenant.Namespace, "name": "app", "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
				"uid": "0f3c3f3e-8a45-4e54-9d3f-3f8f0f1f2a77",
			},
			"severity": "error", "reason": "BuildFailed", "message": text, "reportingController": "kustomize-controller",
		})
		s.Must(err)
		return event
	}
	post := func(ctx context.Context, text string) error {
		resp, err := s.Do(ctx, http.MethodPost, s.EventsURL+"/", nil, message(text))
		if err == nil && resp.Status != http.StatusAccepted {
			err = fmt.Errorf("POST of an event: got %d %q, want 202", resp.Status, resp.Body)
		}
		return err
	}

	// An API server that cannot be reached: no event is routed, but events are accepted.
	dir, err := env.TempDir("identity")
	s.Must(err)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	s.Must(s.System.KubeconfigAs(s.Ctx, env.SystemNamespace, env.ServiceAccount, kubeconfig))
	unreachable, err := clientcmd.LoadFromFile(kubeconfig)
	s.Must(err)
	for _, cluster := range unreachable.Clusters {
		cluster.Server = "https://127.0.0.1:1"
	}
	s.Must(clientcmd.WriteToFile(*unreachable, kubeconfig))
	s.Notifier, err = s.System.Launch(s.Ctx, env.NotifierOptions{
		Kubeconfig: kubeconfig, Args: []string{"--watch-all-namespaces=false"}, Env: []string{"RUNTIME_NAMESPACE=" + s.Tenant.Namespace},
	})
	s.Must(err)
	t.Cleanup(func() { _ = s.Kill() })
	s.Must(env.Eventually(s.Ctx, func(ctx context.Context) error { return post(ctx, "of the tenant before: 0") }))
	for i := 1; i < 20; i++ {
		s.Must(post(s.Ctx, fmt.Sprintf("of the tenant before: %d", i)))
	}
	s.Must(s.Kill())

	s.Must(s.System.DeleteNamespace(s.Ctx, s.Tenant.Namespace))
	name, err := s.System.Namespace(s.Ctx, s.Tenant.Namespace)
	s.Must(err)
	if name != s.Tenant.Namespace {
		t.Fatalf("made %s, not %s", name, s.Tenant.Namespace)
	}
	s.Must(s.Tenant.Provider(s.Ctx, "all", "generic", sink.URL("/")))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "all", nil, `{"providerRef":{"name":"all"},"eventSources":[`+env.AnyKustomization+`]}`))
	s.Must(s.System.KubeconfigAs(s.Ctx, env.SystemNamespace, env.ServiceAccount, kubeconfig))
	s.Must(s.Restart(s.Ctx))

	// One object's events arrive in order: an event accepted now arrives last.
	s.Must(post(s.Ctx, "of the tenant now"))
	got, err := sink.Wait(s.Ctx, func(got []env.Received) bool {
		return len(got) > 0 && strings.Contains(string(got[len(got)-1].Body), "of the tenant now")
	})
	s.Must(err)
	if len(got) != 1 {
		t.Errorf("the new tenant was told %d events of the one before", len(got)-1)
	}
}

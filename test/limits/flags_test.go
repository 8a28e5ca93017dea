package limits

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// runs starts the program with the flags and returns its exit code and its output. It must end by itself.
func runs(t *testing.T, w *env.System, args ...string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p, err := env.Start(env.Command{Path: w.Program, Args: args, Env: []string{"RUNTIME_NAMESPACE="}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Kill9() }()
	select {
	case <-p.Exited():
	case <-ctx.Done():
		t.Fatalf("%v: it still runs", args)
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.Err()); ok {
		return exit.ExitCode(), p.Logs()
	}
	return 0, p.Logs()
}

// Fails when a bad value is ignored, is detected after something was started, or is reported without its flag.
func TestABadFlagIsNamedAndNothingStarts(t *testing.T) {
	t.Parallel()
	w, err := sharedSystem()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		flag, value string
		more        []string
	}{
		{"no-cross-namespace-refs", "false", nil},
		{"watch-all-namespaces", "false", nil}, // and RUNTIME_NAMESPACE is empty
		{"events-addr", "nowhere", nil},
		{"receiverAddr", "127.0.0.1:port", nil},
		{"metrics-addr", "127.0.0.1:99999", nil},
		{"health-addr", "", nil},
		{"pprof-addr", ":6060", nil}, // open to the network
		{"log-level", "loud", nil},
		{"log-encoding", "xml", nil},
		{"default-service-account", "", nil},
		{"default-service-account", "../admin", nil},
		{"default-service-account", "system:admin", nil},
		{"allow-destinations", "10.0.0.0/40", nil},
		{"max-alerts-per-namespace", "-1", nil},
		{"max-receivers-per-namespace", "-1", nil},
		{"data-dir", "", nil},
		{"nats-creds", "/nowhere", nil},
		{"nats-url", "nowhere", nil},
		{"stream-replicas", "3", nil},
		{"stream-replicas", "9", []string{"--nats-url", "nats://127.0.0.1:1"}},
		{"rate-limit-interval", "0s", nil},
		{"namespace-quota", "0", nil},
		{"trigger-interval", "1ns", nil},
		{"receiver-rate", "-1", nil},
		{"receiver-burst", "0", nil},
		{"kube-api-qps", "0", nil},
		{"kube-api-burst", "0", nil},
		{"concurrent", "0", nil},
		{"trigger-interval", "soon", nil},
		{"unheard-of", "1", nil},
	} {
		args := append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--kubeconfig", w.Kubeconfig}, tc.more...)
		code, output := runs(t, w, append(args, "--"+tc.flag+"="+tc.value)...)
		if code != 2 || !strings.Contains(output, "--"+tc.flag) {
			t.Errorf("--%s=%s: exit code %d, output %q; want 2 and the flag's name", tc.flag, tc.value, code, output)
		}
	}
	// Flux's arguments, which leave out the command.
	if code, output := runs(t, w, "--watch-all-namespaces"); code != 2 || !strings.Contains(output, "come after the command serve") {
		t.Errorf("without the command: exit code %d: %s", code, output)
	}
	// Several errors are reported at once, with their reasons.
	code, output := runs(t, w, "serve", "--no-cross-namespace-refs=false", "--log-level=loud", "extra")
	if code != 2 {
		t.Errorf("exit code %d: %s", code, output)
	}
	code, output = runs(t, w, "serve", "--no-cross-namespace-refs=false", "--log-level=loud")
	if code != 2 || !strings.Contains(output, "refused") || !strings.Contains(output, "log-level") {
		t.Errorf("exit code %d: %s", code, output)
	}
}

// Flux's own Deployment starts unchanged. Fails when a flag of Flux is unknown here.
func TestFluxsFlagsAreTakenAndTheLogSaysWhatTheyDo(t *testing.T) {
	s := scoped(t)
	s.startScoped(env.NotifierOptions{Args: []string{
		"--export-http-path-metrics", "--watch-configs-label-selector=a=b", "--token-cache-max-size=10", "--token-cache-max-duration=1h",
		"--feature-gates=ObjectLevelWorkloadIdentity=true,CacheSecretsAndConfigMaps=true", "--min-retry-delay=1s", "--max-retry-delay=1m", "--concurrent=8",
		"--enable-leader-election", "--leader-election-lease-duration=35s", "--leader-election-renew-deadline=30s",
		"--leader-election-retry-period=5s", "--leader-election-release-on-cancel",
		"--kube-api-qps=20", "--kube-api-burst=100", "--log-level=info", "--log-encoding=json", "--rate-limit-interval=1m",
	}})
	for _, flag := range []string{
		"export-http-path-metrics", "watch-configs-label-selector", "feature-gates", "min-retry-delay",
		"enable-leader-election", "leader-election-lease-duration", "leader-election-renew-deadline", "leader-election-retry-period",
		"leader-election-release-on-cancel",
	} {
		if !strings.Contains(s.Logs(), flag) {
			t.Errorf("the log does not say what --%s does", flag)
		}
	}
}

package command

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// A user with a certificate who may do everything is refused, since the request is a service account's. Fails when nothing says so, or that its
// token may be for another audience.
func TestARefusalNamesTheServiceAccountOfTheRequest(t *testing.T) {
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/events?limit=50": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "you may not list events"})
		}),
	})
	given := token
	kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: given}})
	}))
	defer kube.Close()
	line := []string{"events", "list", "--server=" + api.URL, "--kubeconfig=" + kubeconfig(t, kube.URL, "{}")}
	if r := callWith(t, line); r.err == nil || !strings.Contains(r.err.Error(), "you may not list events") ||
		!strings.Contains(r.err.Error(), "service account team-a/default") || !strings.Contains(r.err.Error(), "--service-account") {
		t.Errorf("error %v", r.err)
	}
	if r := call(t, api, "events", "list"); r.err == nil || strings.Contains(r.err.Error(), "service account") {
		t.Errorf("of a caller with a token: error %v", r.err)
	}
	given = "of another audience"
	if r := callWith(t, line); r.err == nil || !strings.Contains(r.err.Error(), "sign in") || !strings.Contains(r.err.Error(), "--audience") {
		t.Errorf("of a token that is refused: error %v", r.err)
	}
}

// Fails when the remedy is that of client-go, a variable for one address of an API server without credentials.
func TestACommandWithoutAKubeconfigAsksForOne(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	if r := callWith(t, []string{"deliveries", "list", "--server=http://127.0.0.1:1"}); r.err == nil ||
		!strings.Contains(r.err.Error(), "--kubeconfig") || strings.Contains(r.err.Error(), "KUBERNETES_MASTER") {
		t.Errorf("error %v", r.err)
	}
}

// Fails when an argument is missing and the error does not say which.
func TestAMissingArgumentIsNamed(t *testing.T) {
	for line, want := range map[string]string{
		"deliveries show": "ID: notifier deliveries show ID", "events explain": "ID: notifier events explain ID",
		"providers test": "PROVIDER: notifier providers test PROVIDER",
	} {
		if r := callWith(t, strings.Fields(line)); r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%s: error %v, want %q", line, r.err, want)
		}
	}
}

// Fails when a server that cannot be reached, or whose certificate no known authority has signed, is reported without the flag that mends it.
func TestAServerThatCannotBeReachedSaysWhichFlagToCheck(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake
	server.StartTLS()
	defer server.Close()
	for address, want := range map[string]string{server.URL: "--server-ca", "http://127.0.0.1:1": "--server or $NOTIFIER_SERVER"} {
		line := []string{"events", "list", "--server=" + address, "--kubeconfig=" + kubeconfig(t, "https://127.0.0.1:1", "{token: "+token+"}")}
		if r := callWith(t, line); r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%s: error %v, want %q", address, r.err, want)
		}
	}
}

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/event/view"
)

// E7. Fails when the token is sent in the clear, or follows a redirect, or when an error shows a password in the address.
func TestTheTokenGoesToTheAPIAlone(t *testing.T) {
	for _, server := range []string{
		"http://notifier.example.com", "http://10.0.0.1:9595", "ftp://127.0.0.1", "https://u:hunter2@127.0.0.1", "https://u:hunter2@127.0.0.1:x", "nothing",
	} {
		r := callWith(t, []string{"deliveries", "list", "--server=" + server, "--kubeconfig=" + kubeconfig(t, "https://127.0.0.1:1", "{token: "+token+"}")})
		if r.err == nil || !strings.Contains(r.err.Error(), "--server") || strings.Contains(r.err.Error(), token) ||
			strings.Contains(r.err.Error(), "hunter2") {
			t.Errorf("%s: error %v", server, r.err)
		}
	}
	var stranger http.Header
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stranger = r.Header }))
	defer elsewhere.Close()
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }),
	})
	if r := call(t, api, "deliveries", "list"); r.err == nil || stranger != nil {
		t.Errorf("error %v, the other server was sent %v", r.err, stranger)
	}
}

// Fails when the API server's password or a certificate is sent, or an impersonation is ignored.
func TestOnlyATokenIsSent(t *testing.T) {
	api := newFakeAPI(t, nil)
	for _, user := range []string{"{username: admin, password: secret}", "{token: " + token + ", as: other}", "{token: " + token + ", as-groups: [others]}"} {
		r := callWith(t, []string{"deliveries", "list", "--server=" + api.URL, "--kubeconfig=" + kubeconfig(t, "https://127.0.0.1:1", user)})
		if r.err == nil || len(api.asked) > 0 {
			t.Errorf("%s: error %v, %d requests", user, r.err, len(api.asked))
		}
	}
}

// Fails when a caller gets no token of the service account that is named, or no token of any without one of the caller's, when it is for
// another audience than is named, or when a token is requested for a caller with a plugin.
func TestACallerWithoutATokenAsksForOne(t *testing.T) {
	api := newFakeAPI(t, map[string]any{"GET /v1/namespaces/team-a/events?limit=50": view.Page[view.Event]{}})
	var path string
	var asked authenticationv1.TokenRequest
	kube := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, asked = r.URL.Path, authenticationv1.TokenRequest{}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: token}})
	}))
	defer kube.Close()
	line := []string{"events", "list", "--server=" + api.URL, "--kubeconfig"}
	for _, user := range []string{"{}", "{token: of the user}"} {
		callWith(t, append(line, kubeconfig(t, kube.URL, user), "--service-account=viewer", "--audience=notifier")).wants(t)
		if path != "/api/v1/namespaces/team-a/serviceaccounts/viewer/token" || !slices.Equal(asked.Spec.Audiences, []string{"notifier"}) {
			t.Errorf("asked for a token at %q for %q", path, asked.Spec.Audiences)
		}
	}
	callWith(t, append(line, kubeconfig(t, kube.URL, "{}"))).wants(t)
	if path != "/api/v1/namespaces/team-a/serviceaccounts/default/token" || asked.Spec.Audiences != nil {
		t.Errorf("asked for a token at %q for %q", path, asked.Spec.Audiences)
	}

	plugin := filepath.Join(t.TempDir(), "plugin")
	script := "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"" + token + "\"}}'\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	user := "{exec: {apiVersion: client.authentication.k8s.io/v1, command: " + plugin + ", interactiveMode: Never}}"
	callWith(t, append(line, kubeconfig(t, "https://127.0.0.1:1", user))).wants(t)
}

// Fails when a token of a plugin that names no end is sent until the command ends, though the API refuses it, as in a watch of a day.
func TestAPluginsTokenIsRenewedWhenItIsRefused(t *testing.T) {
	const script = `#!/bin/sh
echo >> "$0.calls"
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$(grep -c ^ "$0.calls")'"}}'
`
	for asked, want := range map[string]string{"events list --limit=2": "12", "deliveries replay --state=dead": "12", "events list --limit=1": "1"} {
		plugin := filepath.Join(t.TempDir(), "plugin")
		if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		sent, asks := "", map[string]int{}
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			current := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if asks[current]++; asks[current] > 1 {
				http.Error(w, `{"error":"sign in"}`, http.StatusUnauthorized)
				return
			}
			sent += current
			if body, _ := io.ReadAll(r.Body); r.Method == http.MethodPost && len(body) == 0 {
				t.Error("the body is sent once only")
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"items": []view.Event{{}}, "next": "more", "replayed": 1, "more": len(sent) == 1})
		}))
		user := "{exec: {apiVersion: client.authentication.k8s.io/v1, command: " + plugin + ", interactiveMode: Never}}"
		line := append(strings.Fields(asked), "--server="+api.URL, "--kubeconfig="+kubeconfig(t, "https://127.0.0.1:1", user))
		if r := callWith(t, line); r.err != nil || sent != want {
			t.Errorf("%s: tokens %q, want %q: error %v", asked, sent, want, r.err)
		}
		api.Close()
	}
}

// Fails when a token that the API does not take is sent twice, though the plugin has no other: an address has few tries.
func TestAPluginsOnlyTokenIsSentOnce(t *testing.T) {
	plugin := filepath.Join(t.TempDir(), "plugin")
	script := "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"other\"}}'\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	api := newFakeAPI(t, nil)
	user := "{exec: {apiVersion: client.authentication.k8s.io/v1, command: " + plugin + ", interactiveMode: Never}}"
	r := callWith(t, []string{"events", "list", "--server=" + api.URL, "--kubeconfig=" + kubeconfig(t, "https://127.0.0.1:1", user)})
	if r.err == nil || len(api.asked) != 1 {
		t.Errorf("%d requests: error %v", len(api.asked), r.err)
	}
}

// Fails when a token that was requested is sent after it has expired, as in a watch that lasts for longer than an hour.
func TestARequestedTokenIsRenewed(t *testing.T) {
	issued, sent := 0, []string{}
	kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		issued++
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{
			Status: authenticationv1.TokenRequestStatus{Token: fmt.Sprint(token, issued), ExpirationTimestamp: metav1.Now()},
		})
	}))
	defer kube.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
		_ = json.NewEncoder(w).Encode(view.Page[view.Event]{Items: make([]view.Event, len(sent)), Next: "more"})
	}))
	defer api.Close()
	callWith(t, []string{"events", "list", "--limit=3", "--server=" + api.URL, "--kubeconfig=" + kubeconfig(t, kube.URL, "{}")}).wants(t)
	if len(sent) != 2 || sent[0] == sent[1] || !strings.HasPrefix(sent[1], "Bearer "+token) {
		t.Errorf("sent %q", sent)
	}
}

// Fails when the link does not sign in, or when the token is in a part that a server or a log sees.
func TestTheLinkHasTheTokenBehindTheHash(t *testing.T) {
	api := newFakeAPI(t, nil)
	r := call(t, api, "ui")
	if want := api.URL + "/ns/team-a/deliveries#token=" + token + "\n"; r.err != nil || r.out != want {
		t.Errorf("error %v, output %s", r.err, r.out)
	}
	if r := call(t, api, "ui", "-o", "json"); r.err == nil || r.out != "" { // a script would take the line for JSON
		t.Errorf("in another form: error %v, output %s", r.err, r.out)
	}
}

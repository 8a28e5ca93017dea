package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Fails when Events and the accounts of Providers wait for one budget, when either has another than --kube-api-qps, when reviews wait for
// one, or when a review goes elsewhere.
func TestEachClientHasItsBudget(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method + " " + r.URL.Path {
		case "POST /apis/authentication.k8s.io/v1/tokenreviews":
			fmt.Fprint(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true}}`)
		case "POST /apis/authorization.k8s.io/v1/subjectaccessreviews":
			fmt.Fprint(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	o := DefaultOptions()
	o.Kubeconfig, o.APIAddr, o.KubeAPIQPS, o.KubeAPIBurst = filepath.Join(t.TempDir(), "kubeconfig"), ":0", 0.01, 3
	if err := os.WriteFile(o.Kubeconfig, fmt.Appendf(nil, `{clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}],
		current-context: c}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newClients(o, discard)
	if err != nil {
		t.Fatal(err)
	}
	events, accounts := c.events.GetRateLimiter(), c.accounts.GetRateLimiter()
	if events == accounts || events.QPS() != 0.01 || accounts.QPS() != 0.01 {
		t.Errorf("Events have the limiter %v, accounts %v", events, accounts)
	}
	for range o.KubeAPIBurst {
		if !events.TryAccept() {
			t.Error("Events have no burst of 3")
		}
	}
	if events.TryAccept() || !accounts.TryAccept() {
		t.Error("accounts wait for Events, or these do not")
	}
	token, err := c.tokens.Create(t.Context(), &authenticationv1.TokenReview{}, metav1.CreateOptions{})
	if err != nil || !token.Status.Authenticated {
		t.Errorf("token: got %+v, %v", token, err)
	}
	right, err := c.rights.Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
	if err != nil || !right.Status.Allowed {
		t.Errorf("right: got %+v, %v", right, err)
	}
	for _, reviews := range []any{c.tokens, c.rights} {
		client := reviews.(interface{ GetClient() rest.Interface }).GetClient()
		if limiter := client.GetRateLimiter(); limiter != nil {
			t.Errorf("reviews wait for %v", limiter)
		}
	}
}

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fails when a name that only the tenant's proxy resolves is looked up here, or when an IP address in the URL is not
// checked because there is a proxy.
func TestADestinationThatOnlyTheProxyResolvesIsReached(t *testing.T) {
	s := setUp(t)
	proxy := s.NewSink() // a request over plain http reaches the proxy whole, and a sink answers it
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Secret(s.Ctx, "proxy", map[string]string{"address": proxy.URL("/")}))
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "all", nil,
		`{"type":"generic","address":"http://known-to-the-proxy.test/in","proxySecretRef":{"name":"proxy"}}`))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "all", nil, alertSpec("all", "")))
	s.Condition(s.Tenant, "Alert", "all", "Serving", metav1.ConditionTrue, "")
	s.failure("by the proxy")
	s.waitMessages(proxy, "by the proxy")
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "literal", nil,
		`{"type":"generic","address":"http://169.254.169.254/in","proxySecretRef":{"name":"proxy"}}`))
	s.Condition(s.Tenant, "Provider", "literal", "Serving", metav1.ConditionFalse, "InvalidConfig")
}

// E7: fails when a header that is notifier's own makes the Provider unserved, is sent, or is not reported, and when its
// value shows.
func TestAProviderWhoseHeadersAreOursIsServedAndSaysSo(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Secret(s.Ctx, "all", map[string]string{
		"address": sink.URL("/"), "token": "t", "headers": "Host: s3cret.example\nX-Signature: s3cret\nX-Tenant: mine\n",
	}))
	s.Must(s.Tenant.Object(s.Ctx, "Provider", "all", nil, `{"type":"generic-hmac","secretRef":{"name":"all"}}`))
	c := s.Condition(s.Tenant, "Provider", "all", "Serving", metav1.ConditionTrue, "")
	if !strings.HasSuffix(c.Message, "are ignored: Host, X-Signature") {
		t.Errorf("the Provider says %q", c.Message)
	}
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "all", nil, alertSpec("all", "")))
	s.Condition(s.Tenant, "Alert", "all", "Serving", metav1.ConditionTrue, "")
	s.failure("with headers")
	s.waitMessages(sink, "with headers")
	got := sink.Received()[0].Header
	if got.Get("X-Tenant") != "mine" || !strings.HasPrefix(got.Get("X-Signature"), "sha256=") {
		t.Errorf("sent %v", got)
	}
}

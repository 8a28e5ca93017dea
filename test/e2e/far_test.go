package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"notifier/test/env"
)

// Fails when a type with a fixed host does not use the tenant's proxy and authority, or sends to another host or path
// than its vendor's.
func TestATypeOfAFixedHostIsLedByTheTenantsProxy(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	const token = "1234:s3cret"
	rows := []struct {
		host, path, body string
		provider         env.FarProvider
	}{
		{
			"api.telegram.org", "/bot" + token + "/sendMessage", "over there",
			env.FarProvider{Type: "telegram", Channel: "-100123", Secret: map[string]string{"token": token}},
		},
		{
			"hooks.servicebus.windows.net", "/hub/messages", "over there",
			env.FarProvider{Type: "azureeventhub", Channel: "hooks", Secret: map[string]string{"address": "hub", "token": "t"}},
		},
		{"pubsub.googleapis.com", "/v1/projects/my-project/topics/topic:publish", `"data":`, // in base64
			env.FarProvider{Type: "googlepubsub", Channel: "topic", Secret: map[string]string{"address": "my-project", "token": s.googleKey()}}},
	}
	fars := make([]*env.Far, len(rows))
	for i, row := range rows {
		far, err := env.NewFar(row.host)
		s.Must(err)
		t.Cleanup(func() { _ = far.Close() })
		far.Answer(env.Answer{Body: `{"ok":true}`})
		s.Must(far.Alert(s.Ctx, s.Tenant, "to-"+row.provider.Type, row.provider))
		fars[i] = far
	}
	s.failure("over there")
	for i, row := range rows {
		got, err := fars[i].Wait(s.Ctx, func(got []env.Received) bool { return len(got) > 0 })
		s.Must(err)
		if len(got) != 1 || got[0].Path != row.path || !strings.Contains(string(got[0].Body), row.body) {
			t.Errorf("%s received %+v", row.provider.Type, got)
		}
	}
}

// googleKey returns the key of a service account.
func (s *fixture) googleKey() string {
	s.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	s.Must(err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	s.Must(err)
	key, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@p.test", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	s.Must(err)
	return string(key)
}

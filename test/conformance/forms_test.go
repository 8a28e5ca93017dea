package conformance

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is a Provider and its Secret in a form that Flux's documentation of Providers gives for a type
// (docs/spec/v1beta3/providers.md of notification-controller). An address and credentials fill its blanks.
type form struct {
	providerType string
	// spec has the fields beside type and secretRef.
	spec map[string]string
	// secret has the Secret's keys, none where there is no Secret.
	secret map[string]string
}

type values = map[string]string

// appKey and cloudKey are placeholders for keys that the test makes.
const appKey, cloudKey = "$APP_KEY", "$CLOUD_KEY"

var forms = []form{
	{"generic", values{"address": "https://hook.example/flux"}, values{"headers": "Authorization: my-api-token\nX-Forwarded-Proto: https\n"}},
	{"generic-hmac", values{"address": "https://hook.example/flux"}, values{"token": "hmac-key"}},
	{"slack", values{"channel": "general", "address": "https://slack.com/api/chat.postMessage"}, values{"token": "xoxb-1-2-3"}},
	{"slack", nil, values{"address": "https://hooks.slack.com/services/T/B/x"}},
	{"msteams", nil, values{"address": "https://prod-1.westeurope.logic.azure.com:443/workflows/z/triggers/manual/paths/invoke?sig=x"}},
	{"msteams", nil, values{"address": "https://team.webhook.office.com/webhookb2/x"}},
	{"discord", nil, values{"address": "https://discord.com/api/webhooks/1/x"}},
	{"rocket", nil, values{"address": "https://rocket.example/hooks/1/x"}},
	{"googlechat", nil, values{"address": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"}},
	{"webex", values{"address": "https://webexapis.com/v1/messages", "channel": "Y2lzY29zcGFyazovL3VzL1JPT00vMQ"}, values{"token": "bot-token"}},
	{"telegram", values{"address": "https://api.telegram.org", "channel": "@fluxcd"}, values{"token": "1:bot"}},
	{"telegram", values{"address": "https://api.telegram.org", "channel": "-1557265138"}, values{"token": "1:bot"}},
	{"lark", nil, values{"address": "https://open.larksuite.com/open-apis/bot/v2/hook/x"}},
	{"matrix", values{"address": "https://matrix.org", "channel": "!jezptmDwEeLapMLjOc:matrix.org"}, values{"token": "syt_x"}},
	{"zulip", values{"address": "https://zulip.example", "channel": "flux/alerts"}, values{"username": "bot@zulip.example", "password": "key"}},
	{"zoom", values{"address": "https://inbots.zoom.us/incoming/hook/x"}, values{"token": "verification"}},
	{"mastodon", values{"address": "https://mastodon.example"}, values{"token": "token"}},
	{"mastodon", nil, values{"address": "https://mastodon.example/api/v1/statuses/", "token": "token"}},
	{"opsgenie", values{"address": "https://api.opsgenie.com/v2/alerts"}, values{"token": "0123456789abcdef"}},
	{"pagerduty", values{"address": "https://events.pagerduty.com", "channel": "0123456789abcdef0123456789abcdef"}, nil},
	{"alertmanager", nil, values{"address": "https://user:password@alertmanager.example:9093/api/v2/alerts/"}},
	{"alertmanager", values{"address": "https://alertmanager.example:9093/api/v2/alerts/"}, values{"token": "bearer"}},
	{"grafana", values{"address": "https://grafana.example/api/annotations"}, values{"token": "glsa_x"}},
	{"grafana", values{"address": "https://grafana.example/api/annotations"}, values{"username": "flux", "password": "password"}},
	{"datadog", values{"address": "https://api.datadoghq.com"}, values{"token": "0123456789abcdef0123456789abcdef"}},
	{"sentry", values{"channel": "staging-env"}, values{"address": "https://0123456789abcdef@sentry.io/12341234"}},
	{"incident.io", values{"address": "https://api.incident.io/v2/alert_events/http/01"}, values{"token": "token"}},
	{"otel", values{"address": "https://collector.example:4318/v1/traces"}, values{"headers": "X-Tenant: flux\n", "token": "token"}},
	{"nats", values{"address": "nats://nats.example:4222", "channel": "flux.events"}, values{"username": "flux", "password": "password"}},
	{"nats", values{"channel": "flux.events"}, values{"address": "nats://flux:password@nats.example:4222"}},
	{"googlepubsub", values{"address": "my-project", "channel": "my-topic"}, values{"token": cloudKey, "headers": "attr1-name: attr1-value\n"}},
	{"azureeventhub", values{"address": "my-hub", "channel": "my-namespace"}, values{"token": "eyJhbGciOiJub25lIn0.e30.x"}},
	{"azureeventhub", nil, values{
		"address": "Endpoint=sb://fluxv2.servicebus.windows.net/;SharedAccessKeyName=Send;SharedAccessKey=a2V5;EntityPath=my-hub",
	}},
	{"github", values{"address": "https://github.com/my-gh-org/my-gh-repo"}, values{"token": "ghp_x"}},
	{"github", values{"address": "https://github.com/my-gh-org/my-gh-repo"}, values{
		"githubAppID": "1", "githubAppInstallationID": "2", "githubAppPrivateKey": appKey,
	}},
	{"githubdispatch", values{"address": "https://github.com/my-gh-org/my-gh-repo"}, values{"token": "ghp_x"}},
	{"githubpullrequestcomment", values{"address": "https://github.com/my-gh-org/my-gh-repo"}, values{"token": "ghp_x"}},
	{"gitlab", values{"address": "https://gitlab.com/1234"}, values{"token": "glpat-x"}},
	{"gitlabmergerequestcomment", values{"address": "https://gitlab.com/my-group/my-repo"}, values{"token": "glpat-x"}},
	{"gitea", values{"address": "https://gitea.example/my-org/my-repo"}, values{"token": "x"}},
	{"giteapullrequestcomment", values{"address": "https://gitea.example/my-org/my-repo"}, values{"token": "x"}},
	{"bitbucket", values{"address": "https://bitbucket.org/my-org/my-repo"}, values{"token": "user:app-password"}},
	{"bitbucketserver", values{"address": "https://bitbucket.example/scm/prj/repo.git"}, values{"username": "user", "password": "password"}},
	{"bitbucketserver", values{"address": "https://bitbucket.example/scm/prj/repo.git", "username": "user"}, values{"password": "password"}},
	{"bitbucketserver", values{"address": "https://bitbucket.example/scm/prj/repo.git"}, values{"token": "x"}},
	{"azuredevops", values{"address": "https://dev.azure.com/my-org/my-project/_git/my-repo"}, values{"token": "x"}},
}

// ownTypes are the types that Flux does not have.
var ownTypes = []string{"cloudevents", "email", "mattermost"}

// Fails when a Flux user's Provider is not served with the Secret that Flux's documentation prescribes, or when a type
// of Flux is missing here.
func TestAProviderIsServedInEachFormOfFluxsDocumentation(t *testing.T) {
	s := setUp(t)
	types, err := s.Tenant.ProviderTypes(s.Ctx)
	s.Must(err)
	tried := map[string]bool{}
	keys := keysOfTheTest(t)
	for i, f := range forms {
		tried[f.providerType] = true
		name := fmt.Sprintf("form-%d", i)
		spec := map[string]any{"type": f.providerType}
		for field, value := range f.spec {
			spec[field] = value
		}
		if f.secret != nil {
			secret := maps.Clone(f.secret)
			for key, value := range secret {
				if made, ok := keys[value]; ok {
					secret[key] = made
				}
			}
			s.Must(s.Tenant.Secret(s.Ctx, name, secret))
			spec["secretRef"] = map[string]any{"name": name}
		}
		text, err := json.Marshal(spec)
		s.Must(err)
		s.Must(s.Tenant.Object(s.Ctx, "Provider", name, nil, string(text)))
	}
	for i, f := range forms {
		for _, condition := range []string{"Serving", "Ready"} {
			if _, err := s.Tenant.WaitCondition(s.Ctx, "Provider", fmt.Sprintf("form-%d", i), condition, metav1.ConditionTrue, ""); err != nil {
				t.Errorf("%s, form %d: %v", f.providerType, i, err)
			}
		}
	}
	for _, name := range types {
		if !tried[name] && name != unknownType && !slices.Contains(ownTypes, name) {
			t.Errorf("no form of type %s is tried", name)
		}
	}
	t.Logf("%d forms of %d types", len(forms), len(tried))
}

// keysOfTheTest returns new keys, since no repository should contain one.
func keysOfTheTest(t *testing.T) map[string]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "my-project", "private_key_id": "1", "private_key": text,
		"client_email": "flux@my-project.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{appKey: text, cloudKey: string(account)}
}

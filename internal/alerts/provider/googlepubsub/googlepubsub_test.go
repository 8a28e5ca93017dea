package googlepubsub

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const email = "flux@project.iam.gserviceaccount.com"

// private returns a key, always the same: its generation takes a while.
var private = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// keyFile returns a service account's key file, with a change.
func keyFile(t *testing.T, change func(map[string]string)) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private())
	if err != nil {
		t.Fatal(err)
	}
	f := map[string]string{
		"type": "service_account", "project_id": "project", "private_key_id": "key-1", "client_email": email,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "http://169.254.169.254/s3cret",
	}
	if change != nil {
		change(f)
	}
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// google answers like Pub/Sub and refuses the same requests. A token of the workload identity is "impersonated".
func google(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, status string) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":"s3cret","status":%q}}`, code, status)
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token != "impersonated" && !signed(token) {
		refuse(http.StatusUnauthorized, "UNAUTHENTICATED")
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/v1/projects/project/topics/flux-events:publish") || r.Method != http.MethodPost {
		refuse(http.StatusNotFound, "NOT_FOUND")
		return
	}
	if raw, _ := io.ReadAll(r.Body); !valid(raw) {
		refuse(http.StatusBadRequest, "INVALID_ARGUMENT")
		return
	}
	_, _ = io.WriteString(w, `{"messageIds":["1"]}`)
}

// signed reports whether Google's APIs would accept a JWT from a service account.
func signed(token string) bool {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || parsed.Headers[0].KeyID != "key-1" || parsed.Headers[0].ExtraHeaders["typ"] != "JWT" {
		return false
	}
	var c struct {
		Iss string `json:"iss"`
		Sub string `json:"sub"`
		Aud string `json:"aud"`
		Iat int64  `json:"iat"`
		Exp int64  `json:"exp"`
	}
	if parsed.Claims(private().Public(), &c) != nil {
		return false
	}
	now := time.Now().Unix()
	return c.Iss == email && c.Sub == email && c.Aud == "https://pubsub.googleapis.com/" && c.Iat <= now && c.Exp > now && c.Exp-c.Iat <= 3600
}

// valid reports whether a body is a PublishRequest within Pub/Sub's limits whose data is an event.
func valid(raw []byte) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var b struct {
		Messages []struct {
			Data        []byte            `json:"data"`
			Attributes  map[string]string `json:"attributes"`
			OrderingKey string            `json:"orderingKey"`
		} `json:"messages"`
	}
	if d.Decode(&b) != nil || len(b.Messages) != 1 || len(raw) > 10_000_000 {
		return false
	}
	m := b.Messages[0]
	for name, value := range m.Attributes {
		if name == "" || len(name) > 256 || len(value) > 1024 || strings.HasPrefix(name, "goog") {
			return false
		}
	}
	_, err := event.Decode(m.Data)
	return err == nil && len(m.Attributes) <= 100 && m.Attributes["Idempotency-Key"] != "" && m.OrderingKey != "" && len(m.OrderingKey) <= 1024
}

// at returns a Sender whose endpoint is the address of the Config, for the kit.
var at = provider.Builder(func(cfg provider.Config) (*provider.Client, error) {
	endpoint := cfg.Address
	cfg.Address = "project"
	return build(cfg, endpoint)
})

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: at, Serve: google, Config: provider.Config{Type: "googlepubsub", Channel: "flux-events", Token: keyFile(t, nil)},
	})
}

func newSender(t *testing.T, cfg provider.Config) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, google)
	cfg.Type, cfg.Address, cfg.Channel, cfg.Network = "googlepubsub", "project", "flux-events", providertest.Loopback()
	if cfg.Token == "" {
		cfg.Token = keyFile(t, nil)
	}
	s, err := build(cfg, sink.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, sink
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, google)
	s, err := provider.NewClient(provider.Config{Address: sink.URL, Network: providertest.Loopback()}, provider.ClientOptions{
		Authorize: func(context.Context) (string, error) { return "Bearer impersonated", nil },
		Message:   publish("project", "flux-events", map[string]string{"team": "a"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	providertest.Golden(t, "googlepubsub", s, sink)
}

// Fails when a Secret replaces the key by which subscribers recognize a duplicate: they would drop all messages but the first.
func TestASecretDoesNotReplaceTheIdempotencyKey(t *testing.T) {
	s, sink := newSender(t, provider.Config{Headers: map[string]string{idempotencyKey: "x", "team": "a"}})
	n := providertest.Notifications(t)["info"]
	if err := s.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	var b struct{ Messages []message }
	if err := json.Unmarshal(sink.Last(t).Body, &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{idempotencyKey: n.DeliveryID, "team": "a"}, b.Messages[0].Attributes); diff != "" {
		t.Error(diff)
	}
}

// Fails when the data differs from Flux's event, or events of two objects have one key.
func TestTheDataIsTheEventAndTheKeyItsObject(t *testing.T) {
	s, sink := newSender(t, provider.Config{})
	keys := map[string]bool{}
	for _, name := range []string{"apps", "other"} {
		n := providertest.Notifications(t)["metadata"]
		n.Event.InvolvedObject.Name = name
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		var b struct{ Messages []message }
		if err := json.Unmarshal(sink.Last(t).Body, &b); err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(n.Event)
		if diff := cmp.Diff(string(want), string(b.Messages[0].Data)); diff != "" || err != nil {
			t.Error(diff, err)
		}
		keys[b.Messages[0].OrderingKey] = true
	}
	if len(keys) != 2 {
		t.Errorf("keys are %v", keys)
	}
}

// Fails when the largest event, of the longest characters, exceeds Pub/Sub's limits, or a long name splits a character.
func TestTheLargestEventIsTaken(t *testing.T) {
	s, _ := newSender(t, provider.Config{Timeout: time.Minute}) // with -race its text takes seconds to encode
	n := providertest.Notifications(t)["error"]
	n.Event.Message = strings.Repeat("<\x01€", 2<<20)
	n.Event.InvolvedObject.Kind = strings.Repeat("€", 84)
	n.Event.InvolvedObject.Name, n.Event.InvolvedObject.Namespace = strings.Repeat("a", 253), strings.Repeat("€", 84)
	if err := s.Send(t.Context(), n); err != nil {
		t.Error(err)
	}
	if key := orderingKey(event.Event{InvolvedObject: event.ObjectReference{Name: strings.Repeat("€", 1000)}}); len(key) > 1024 || strings.ContainsRune(key, '\uFFFD') {
		t.Errorf("the key has %d bytes", len(key))
	}
}

// Fails when the status of a refusal is lost, or more than the status is shown.
func TestARefusalIsNamedByItsStatus(t *testing.T) {
	s, _ := newSender(t, provider.Config{Token: keyFile(t, func(f map[string]string) { f["client_email"] = "other@project.iam.gserviceaccount.com" })})
	e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
	if e.Class != event.Permanent || e.Error() != "HTTP 401: UNAUTHENTICATED" {
		t.Errorf("class %d, %q", e.Class, e.Error())
	}
}

// Fails when an event is given up at an error that Google's own libraries publish again after.
func TestATemporaryErrorOfGoogleIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		code   int
		status string
		class  event.Class
	}{
		{http.StatusConflict, "ABORTED", event.Retry}, {499, "CANCELLED", event.Retry}, {http.StatusConflict, "ALREADY_EXISTS", event.Permanent},
	} {
		sink := providertest.NewSink(t, providertest.Says(c.code, fmt.Sprintf(`{"error":{"code":%d,"status":%q}}`, c.code, c.status)))
		s, err := at(provider.Config{Type: "googlepubsub", Address: sink.URL, Channel: "flux-events", Token: keyFile(t, nil), Network: providertest.Loopback()})
		if err != nil {
			t.Fatal(err)
		}
		if e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); e.Class != c.class {
			t.Errorf("%s: got class %d, want %d", e.Reason, e.Class, c.class)
		}
	}
}

// disabled is a refusal in the form in which Google's APIs explain one, 1.4 KiB long. Its status precedes the details.
const disabled = `{
  "error": {
    "code": %d,
    "message": "Cloud Pub/Sub API has not been used in project flux-notifications-production before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/pubsub.googleapis.com/overview?project=flux-notifications-production then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.",
    "status": %q,
    "details": [
      {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "domain": "googleapis.com",
        "metadata": {
          "service": "pubsub.googleapis.com",
          "consumer": "projects/flux-notifications-production",
          "containerInfo": "flux-notifications-production",
          "serviceTitle": "Cloud Pub/Sub API",
          "activationUrl": "https://console.developers.google.com/apis/api/pubsub.googleapis.com/overview?project=flux-notifications-production"
        }
      },
      {
        "@type": "type.googleapis.com/google.rpc.Help",
        "links": [
          {
            "description": "Google developers console API activation",
            "url": "https://console.developers.google.com/apis/api/pubsub.googleapis.com/overview?project=flux-notifications-production"
          }
        ]
      }
    ]
  }
}
`

// Fails when a refusal is not read because Google explains it at length: its status is not shown, and a temporary one is final.
func TestARefusalThatIsExplainedAtLengthIsRead(t *testing.T) {
	for _, c := range []struct {
		code   int
		status string
		class  event.Class
	}{{http.StatusForbidden, "PERMISSION_DENIED", event.Permanent}, {http.StatusConflict, "ABORTED", event.Retry}} {
		sink := providertest.NewSink(t, providertest.Says(c.code, fmt.Sprintf(disabled, c.code, c.status)))
		s, err := at(provider.Config{Type: "googlepubsub", Address: sink.URL, Channel: "flux-events", Token: keyFile(t, nil), Network: providertest.Loopback()})
		if err != nil {
			t.Fatal(err)
		}
		e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if want := fmt.Sprintf("HTTP %d: %s", c.code, c.status); e.Reason != want || e.Class != c.class {
			t.Errorf("got %q of class %d, want %q of class %d", e.Reason, e.Class, want, c.class)
		}
	}
}

// systemCA is the authority of Google.
var systemCA = providertest.NewSystemCA()

// Fails when another token than the workload identity's is sent, or when only one of a Provider's two requests uses its proxy.
func TestAWorkloadIdentityLogsIn(t *testing.T) {
	const audience = "projects/1/locations/global/workloadIdentityPools/p/providers/c"
	sink := systemCA.NewTLSSink(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Host {
		case "sts.googleapis.com":
			_, _ = fmt.Fprintf(w, `{"access_token":"federated","expires_in":3600}`)
		case "iamcredentials.googleapis.com":
			_, _ = fmt.Fprintf(w, `{"accessToken":"impersonated","expireTime":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
		default:
			google(w, r)
		}
	}, false, "sts.googleapis.com", "iamcredentials.googleapis.com", "pubsub.googleapis.com")
	s := providertest.NewSender(t, New, provider.Config{
		Address: "project", Channel: "flux-events", ServiceAccount: "events", Network: providertest.Loopback(),
		TLS:      provider.TLS{CA: providertest.NewCA(t).PEM()}, // which did not sign Google's certificate
		Proxy:    provider.Proxy{Address: providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p").URL, Username: "u", Password: "p"},
		Identity: func(_ context.Context, a string) (string, error) { return "token for " + a, nil },
		Annotations: func(context.Context) (map[string]string, error) {
			return map[string]string{"gcp.auth.fluxcd.io/workload-identity-provider": audience, "iam.gke.io/gcp-service-account": email}, nil
		},
	})
	defer s.Close()
	for range 2 {
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(sink.Requests()); n != 4 {
		t.Errorf("%d requests for two sends and one login", n)
	}
}

// Fails when only the first event reveals a Provider that cannot publish, or when an error quotes a secret.
func TestABadConfigIsRefusedWithItsField(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*provider.Config)
		says   string
	}{
		"no project":           {func(c *provider.Config) { c.Address = "" }, "address is empty"},
		"a URL":                {func(c *provider.Config) { c.Address = "https://s3cret.example.com" }, "address is not the ID"},
		"a path":               {func(c *provider.Config) { c.Address = "a/../b" }, "address is not the ID"},
		"no topic":             {func(c *provider.Config) { c.Channel = "" }, "spec.channel"},
		"a path for a topic":   {func(c *provider.Config) { c.Channel = "a/../../s3cret" }, "spec.channel"},
		"no login":             {func(c *provider.Config) { c.Token = "" }, "spec.serviceAccountName is not set"},
		"no workload identity": {func(c *provider.Config) { c.Token, c.ServiceAccount = "", "events" }, "--feature-gates=ObjectLevelWorkloadIdentity=true"},
		"no JSON":              {func(c *provider.Config) { c.Token = "s3cret" }, "key token"},
		"another type": {func(c *provider.Config) {
			c.Token = keyFile(t, func(f map[string]string) { f["type"] = "external_account" })
		}, "another type"},
		"no key": {func(c *provider.Config) {
			c.Token = keyFile(t, func(f map[string]string) { f["private_key"] = "s3cret" })
		}, "key token"},
		"an attribute of Google": {func(c *provider.Config) { c.Headers = map[string]string{"googs3cret": "x"} }, "headers"},
		"a long attribute":       {func(c *provider.Config) { c.Headers = map[string]string{"a": strings.Repeat("s3cret", 200)} }, "headers"},
	} {
		cfg := provider.Config{Address: "example.com:project-1", Channel: "flux-events", Token: keyFile(t, nil)}
		if _, err := New(cfg); err != nil {
			t.Fatal(err)
		}
		tc.change(&cfg)
		s, err := New(cfg)
		if err == nil || s != nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fails when each message is signed anew, which costs a processor a millisecond, or when a token is sent that expires within minutes.
func TestATokenIsUsedForHalfOfItsLife(t *testing.T) {
	file := []byte(keyFile(t, nil))
	synctest.Test(t, func(t *testing.T) {
		k, err := newKey(file)
		if err != nil {
			t.Fatal(err)
		}
		token := func(after time.Duration) string {
			<-time.After(after)
			token, err := k.authorization(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		first := token(0)
		if token(keyReuse-time.Second) != first {
			t.Error("signed anew within the time")
		}
		if token(time.Second) == first {
			t.Error("used for longer")
		}
	})
}

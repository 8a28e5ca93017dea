package azureeventhub

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	sharedAccess = "key-s3cret="
	connString   = "Endpoint=sb://team.servicebus.windows.net/;SharedAccessKeyName=send;SharedAccessKey=" + sharedAccess
)

// hub answers like Event Hubs and refuses the same requests. Besides signatures it accepts the token "cloud".
func hub(w http.ResponseWriter, r *http.Request) {
	switch body, _ := io.ReadAll(r.Body); {
	case r.Header.Get("Authorization") != "Bearer cloud" && !signed(r):
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method != http.MethodPost, !strings.HasSuffix(r.URL.Path, "/hub/messages"):
		w.WriteHeader(http.StatusNotFound)
	case r.URL.RawQuery != "api-version=2014-01&timeout=60", r.Header.Get("Content-Type") != "application/atom+xml;type=entry;charset=utf-8",
		!valid(r.Header.Get("BrokerProperties"), body):
		w.WriteHeader(http.StatusBadRequest)
	case len(body)+len(r.Header.Get("BrokerProperties")) > 256<<10:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

// signed checks a shared access signature as it is documented.
func signed(r *http.Request) bool {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "SharedAccessSignature ")
	fields := map[string]string{}
	for field := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	mac := hmac.New(sha256.New, []byte(sharedAccess))
	mac.Write([]byte(fields["sr"] + "\n" + fields["se"]))
	got, err := url.QueryUnescape(fields["sig"])
	end, endErr := strconv.ParseInt(fields["se"], 10, 64)
	resource, resourceErr := url.QueryUnescape(fields["sr"])
	u, urlErr := url.Parse(resource)
	return ok && err == nil && endErr == nil && resourceErr == nil && urlErr == nil && len(fields) == 4 && fields["skn"] == "send" &&
		got == base64.StdEncoding.EncodeToString(mac.Sum(nil)) && end > time.Now().Unix() && end < time.Now().Add(time.Hour).Unix() &&
		strings.EqualFold(u.Host, r.Host) && strings.HasPrefix(r.URL.Path, u.Path) && u.RawQuery == ""
}

// valid reports whether the properties are known and within their limits, and the body is an event.
func valid(properties string, body []byte) bool {
	d := json.NewDecoder(bytes.NewReader([]byte(properties)))
	d.DisallowUnknownFields()
	var p struct{ MessageId, PartitionKey string }
	_, err := event.Decode(body)
	return d.Decode(&p) == nil && p.MessageId != "" && len(p.MessageId) <= 128 && p.PartitionKey != "" && len(p.PartitionKey) <= 128 && err == nil
}

// at returns a Sender whose endpoint is the address of the Config, for the kit.
func at(cfg provider.Config) (provider.Sender, error) {
	k := &sharedKey{name: "send", key: []byte(sharedAccess), now: time.Now}
	s, err := build(cfg, cfg.Address, "hub", provider.ClientOptions{Authorize: k.authorization})
	if err != nil {
		return nil, err
	}
	k.resource = s.URL("hub").String()
	return s, nil
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{New: at, Serve: hub, Config: provider.Config{Type: "azureeventhub", Channel: "team"}})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, hub)
	s, err := build(provider.Config{Network: providertest.Loopback()}, sink.URL, "hub", provider.ClientOptions{
		Authorize: func(context.Context) (string, error) { return "Bearer cloud", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	providertest.Golden(t, "azureeventhub", s, sink)
}

// systemCA is the authority of Azure.
var systemCA = providertest.NewSystemCA()

// cloud returns cfg with a proxy that connects every host of Azure to h.
func cloud(t *testing.T, cfg provider.Config, h http.HandlerFunc, hosts ...string) (provider.Config, *providertest.Sink) {
	t.Helper()
	sink := systemCA.NewTLSSink(t, h, false, hosts...)
	cfg.Network = providertest.Loopback()
	cfg.Proxy = provider.Proxy{Address: providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p").URL, Username: "u", Password: "p"}
	return cfg, sink
}

// Fails when a login or an address that Flux accepts is refused, or leads elsewhere.
func TestEachLoginReachesItsHub(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg             provider.Config
		authority, host string
	}{
		"a connection string":              {provider.Config{Address: connString + ";EntityPath=hub"}, "", "team.servicebus.windows.net"},
		"one without its hub":              {provider.Config{Address: " " + connString + ";\n", Channel: "hub"}, "", "team.servicebus.windows.net"},
		"one in another order":             {provider.Config{Address: "EntityPath=hub;SharedAccessKey=" + sharedAccess + ";SharedAccessKeyName=send;Endpoint=sb://a.example.com"}, "", "a.example.com"},
		"a token":                          {provider.Config{Address: "hub", Channel: "team", Token: "cloud"}, "", "team.servicebus.windows.net"},
		"a token in the cloud for China":   {provider.Config{Address: "hub", Channel: "team", Token: "cloud"}, "https://login.chinacloudapi.cn/", "team.servicebus.chinacloudapi.cn"},
		"a token in a government's cloud":  {provider.Config{Address: "hub", Channel: "team", Token: "cloud"}, "https://login.microsoftonline.us/", "team.servicebus.usgovcloudapi.net"},
		"a namespace with its whole name":  {provider.Config{Address: "hub", Channel: "team.servicebus.cloud.example", Token: "cloud"}, "", "team.servicebus.cloud.example"},
		"a connection string, other cloud": {provider.Config{Address: connString + ";EntityPath=hub"}, "https://login.microsoftonline.us/", "team.servicebus.windows.net"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AZURE_AUTHORITY_HOST", tc.authority)
			cfg, sink := cloud(t, tc.cfg, hub, tc.host)
			s := providertest.NewSender(t, New, cfg)
			if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
				t.Fatal(err)
			}
			if host := sink.Last(t).Host; host != tc.host {
				t.Errorf("sent to %s", host)
			}
		})
	}
}

// Fails when another token than the workload identity's is sent.
func TestAWorkloadIdentityLogsIn(t *testing.T) {
	t.Setenv("AZURE_AUTHORITY_HOST", "")
	cfg := provider.Config{
		Address: "hub", Channel: "team", ServiceAccount: "events",
		Identity: func(context.Context, string) (string, error) { return "k8s", nil },
		Annotations: func(context.Context) (map[string]string, error) {
			return map[string]string{"azure.workload.identity/client-id": "client", "azure.workload.identity/tenant-id": "tenant"}, nil
		},
	}
	cfg, sink := cloud(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "login.microsoftonline.com" {
			hub(w, r)
		} else if r.FormValue("client_assertion") == "k8s" && r.FormValue("scope") == scope {
			_, _ = fmt.Fprint(w, `{"access_token":"cloud","expires_in":3600}`)
		}
	}, "login.microsoftonline.com", "team.servicebus.windows.net")
	cfg.TLS.CA = providertest.NewCA(t).PEM() // which did not sign Azure's certificate
	s := providertest.NewSender(t, New, cfg)
	for range 2 {
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(sink.Requests()); n != 3 {
		t.Errorf("%d requests for two sends and one login", n)
	}
}

// Fails when a text beyond the limits of Event Hubs fails the send, when events of two objects have one partition key, or when two
// events of one object have two.
func TestLargeEventsAreCutAndObjectsKeepTheirPartition(t *testing.T) {
	sink := providertest.NewSink(t, hub)
	s, err := build(provider.Config{Network: providertest.Loopback()}, sink.URL, "hub", provider.ClientOptions{
		Authorize: func(context.Context) (string, error) { return "Bearer cloud", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys := map[string]bool{}
	for _, name := range []string{"a", "b", "a"} {
		n := providertest.Notifications(t)["info"]
		n.Event.InvolvedObject.Name, n.Event.Message = name, strings.Repeat("<\x01€", 100_000)
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		keys[sink.Last(t).Header.Get("BrokerProperties")] = true
	}
	if len(keys) != 2 {
		t.Errorf("properties are %v", keys)
	}
}

// Fails when two logins are accepted, one of which would be used silently, or when an error quotes a secret.
func TestABadConfigIsRefusedWithItsField(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  provider.Config
		says string
	}{
		"no address":                      {provider.Config{Address: " "}, "address is empty"},
		"a key and a token":               {provider.Config{Address: connString, Channel: "hub", Token: "s3cret"}, "key token and the connection string"},
		"a key and an account":            {provider.Config{Address: connString, Channel: "hub", ServiceAccount: "a"}, "spec.serviceAccountName and the connection string"},
		"a token and an account":          {provider.Config{Address: "hub", Channel: "team", Token: "s3cret", ServiceAccount: "a"}, "both log in"},
		"no login":                        {provider.Config{Address: "hub", Channel: "team"}, "nothing logs in"},
		"no workload identity":            {provider.Config{Address: "hub", Channel: "team", ServiceAccount: "a"}, "--feature-gates=ObjectLevelWorkloadIdentity=true"},
		"no namespace":                    {provider.Config{Address: "hub", Token: "s3cret"}, "spec.channel"},
		"a namespace that is a path":      {provider.Config{Address: "hub", Channel: "s3cret.test/x?", Token: "s3cret"}, "spec.channel"},
		"a hub that is a URL":             {provider.Config{Address: "https://s3cret/", Channel: "team", Token: "s3cret"}, "address"},
		"a token over two lines":          {provider.Config{Address: "hub", Channel: "team", Token: "s3cret\nx"}, "key token"},
		"no hub":                          {provider.Config{Address: connString}, "EntityPath"},
		"a hub that is a path":            {provider.Config{Address: connString + ";EntityPath=../s3cret"}, "EntityPath"},
		"a connection string, no key":     {provider.Config{Address: "Endpoint=sb://s3cret/;SharedAccessKeyName=s3cret", Channel: "hub"}, "connection string"},
		"a connection string, no server":  {provider.Config{Address: "SharedAccessKeyName=x;SharedAccessKey=s3cret", Channel: "hub"}, "connection string"},
		"a connection string, no pair":    {provider.Config{Address: connString + ";s3cret", Channel: "hub"}, "connection string"},
		"a connection string to a denied": {provider.Config{Address: strings.Replace(connString, "team.servicebus.windows.net", "169.254.169.254", 1), Channel: "hub"}, "not allowed"},
	} {
		s, err := New(tc.cfg)
		if err == nil || s != nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "://") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fails when a service account's token is sent to a host outside its cloud.
func TestAnAccountsTokenIsForItsCloudAlone(t *testing.T) {
	cfg := provider.Config{
		Address: "hub", ServiceAccount: "events", Identity: func(context.Context, string) (string, error) { return "k8s", nil },
		Annotations: func(context.Context) (map[string]string, error) { return nil, nil },
	}
	for authority, channels := range map[string]map[string]bool{
		"": {
			"team": true, "Team.ServiceBus.Windows.net": true, "team.servicebus.evil.example": false, "a.servicebus.windows.net.evil.example": false,
			"team.servicebus.usgovcloudapi.net": false,
		},
		"https://login.microsoftonline.us/": {"team": true, "team.servicebus.usgovcloudapi.net": true, "team.servicebus.windows.net": false},
	} {
		t.Setenv("AZURE_AUTHORITY_HOST", authority)
		for channel, want := range channels {
			cfg.Channel = channel
			s, err := New(cfg)
			if (err == nil) != want {
				t.Errorf("%s at %q: %v", channel, authority, err)
			}
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

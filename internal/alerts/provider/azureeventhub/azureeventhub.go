package azureeventhub

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/cloudauth"
	"notifier/internal/event"
)

const (
	// scope is the same in every cloud, as in Azure's own library.
	scope = "https://eventhubs.azure.net//.default"
	// maxEvent is the length of the longest event in bytes: the Basic tier takes 256 KB with the properties.
	maxEvent    = 250_000
	apiVersion  = "2014-01"
	contentType = "application/atom+xml;type=entry;charset=utf-8"
)

var (
	hubForm       = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,254}[A-Za-z0-9])?$`)
	namespaceForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$`)
)

// New returns a Sender to one hub.
func New(cfg provider.Config) (*provider.Client, error) {
	address := strings.TrimSpace(cfg.Address)
	if address == "" {
		return nil, provider.ErrNoAddress
	}
	if strings.Contains(address, "SharedAccessKey") {
		return newShared(cfg, address)
	}
	namespace := cfg.Channel
	if !strings.Contains(namespace, ".servicebus.") {
		namespace += suffix(cloudauth.AuthorityHost())
	}
	switch {
	case !hubForm.MatchString(address):
		return nil, errors.New("address is neither the name of a hub nor a connection string with a SharedAccessKey")
	case cfg.Channel == "":
		return nil, errors.New("spec.channel is not set: it is the namespace of the hub")
	case !namespaceForm.MatchString(namespace):
		return nil, errors.New("spec.channel is not the name of a namespace of Event Hubs")
	case cfg.ServiceAccount != "" && !strings.HasSuffix(strings.ToLower(namespace), suffix(cloudauth.AuthorityHost())):
		return nil, errors.New("spec.channel names a host that is none of the cloud whose tokens spec.serviceAccountName gets")
	case cfg.Token != "" && cfg.ServiceAccount != "":
		return nil, errors.New("the Secret's key token and spec.serviceAccountName both log in: leave one of them out")
	}
	if cfg.Token != "" {
		return build(cfg, "https://"+namespace, address, provider.ClientOptions{Login: provider.Config.Bearer})
	}
	if cfg.ServiceAccount == "" {
		return nil, errors.New("nothing logs in: address is no connection string, the Secret has no key token, " +
			"and spec.serviceAccountName is not set")
	}
	source, err := cloudauth.Azure(cfg, scope)
	if err != nil {
		return nil, err
	}
	var o provider.ClientOptions
	source.LogIn(&o)
	return build(cloudauth.Public(cfg), "https://"+namespace, address, o)
}

// newShared returns a Sender for a connection string.
func newShared(cfg provider.Config, address string) (*provider.Client, error) {
	switch {
	case cfg.Token != "":
		return nil, errors.New("the Secret's key token and the connection string's SharedAccessKey both log in: leave one of them out")
	case cfg.ServiceAccount != "":
		return nil, errors.New("spec.serviceAccountName and the connection string's SharedAccessKey both log in: leave one of them out")
	}
	c, err := parseConnection(address)
	if err != nil {
		return nil, err
	}
	c.hub = cmp.Or(c.hub, cfg.Channel)
	if !hubForm.MatchString(c.hub) {
		return nil, errors.New("the connection string has no EntityPath, and spec.channel is no name of a hub either")
	}
	k := &sharedKey{name: c.keyName, key: []byte(c.key), now: time.Now}
	client, err := build(cfg, c.endpoint, c.hub, provider.ClientOptions{Authorize: k.authorization})
	if err != nil {
		return nil, err
	}
	resource := client.URL(c.hub)
	resource.RawQuery = ""
	k.resource = resource.String()
	return client, nil
}

// suffix returns the domain of the namespaces in the cloud of an Entra ID authority.
func suffix(authority string) string {
	switch {
	case strings.Contains(authority, "chinacloudapi.cn"):
		return ".servicebus.chinacloudapi.cn"
	case strings.Contains(authority, "microsoftonline.us"):
		return ".servicebus.usgovcloudapi.net"
	default:
		return ".servicebus.windows.net"
	}
}

// build returns a Sender for a hub at an endpoint.
func build(cfg provider.Config, endpoint, hub string, o provider.ClientOptions) (*provider.Client, error) {
	cfg.Address = endpoint
	o.Message = func(c *provider.Client, n provider.Notification) (provider.Request, error) { return request(c, n, hub) }
	return provider.NewClient(cfg, o)
}

// request returns the request that sends the notification's event to a hub.
func request(c *provider.Client, n provider.Notification, hub string) (r provider.Request, err error) {
	body, err := provider.EventJSON(n.Event, maxEvent)
	if err != nil {
		return r, err
	}
	o := n.Event.InvolvedObject
	key := sha256.Sum256([]byte(strings.Join([]string{o.Group(), o.Kind, o.Namespace, o.Name}, "\x00")))
	properties, err := json.Marshal(map[string]string{"MessageId": n.DeliveryID, "PartitionKey": hex.EncodeToString(key[:16])})
	if err != nil {
		return r, event.NewError(event.Permanent, provider.LabelPayload, "properties could not be encoded", err)
	}
	u := c.URL(hub, "messages")
	u.RawQuery = url.Values{"api-version": {apiVersion}, "timeout": {"60"}}.Encode()
	return provider.Request{URL: u, Body: body, Header: http.Header{"Content-Type": {contentType}, "BrokerProperties": {string(properties)}}}, nil
}

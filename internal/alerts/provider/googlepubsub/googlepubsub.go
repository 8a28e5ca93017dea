package googlepubsub

import (
	"errors"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/cloudauth"
	"notifier/internal/event"
)

const (
	endpoint = "https://pubsub.googleapis.com"
	scope    = "https://www.googleapis.com/auth/pubsub"
	// maxEvent is the length of the longest event in bytes. A request may have 10 MB, and base64 makes four bytes of three.
	maxEvent = 7 << 20
	// The limits of attributes (Pub/Sub's quotas and limits). It takes 100, of which one is ours.
	maxAttributes     = 99
	maxAttributeName  = 256  // bytes
	maxAttributeValue = 1024 // bytes
	maxOrderingKey    = 1024 // bytes
	idempotencyKey    = "Idempotency-Key"
)

// The forms of a project's ID, which may have a domain, and of a topic's.
var (
	projectForm = regexp.MustCompile(`^([a-z0-9.-]{1,100}:)?[a-z0-9][a-z0-9-]{0,99}$`)
	topicForm   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$`)
)

// New returns a Sender to one topic, which publishes a notification's event.
func New(cfg provider.Config) (*provider.Client, error) { return build(cfg, endpoint) }

func build(cfg provider.Config, endpoint string) (*provider.Client, error) {
	project, topic, nameErr := topicOf(strings.TrimSpace(cfg.Address), cfg.Channel)
	if errors.Is(nameErr, provider.ErrNoAddress) {
		return nil, nameErr
	}
	cfg.Address = endpoint
	if cfg.Token == "" {
		cfg = cloudauth.Public(cfg)
	}
	o := provider.ClientOptions{Word: cloudauth.GoogleStatus, Temporary: temporary, Message: publish(project, topic, cfg.Headers)}
	loginErr := logIn(cfg, &o)
	client, clientErr := provider.NewClient(cfg, o)
	if err := errors.Join(nameErr, checkAttributes(cfg.Headers), clientErr, loginErr); err != nil {
		return nil, err
	}
	return client, nil
}

// topicOf returns the project and the ID of the topic that a Provider names: by its ID in the project of the address, or by its full name, as
// Google's library takes it.
func topicOf(address, channel string) (project, topic string, err error) {
	if address == "" {
		return "", "", provider.ErrNoAddress
	}
	if !projectForm.MatchString(address) {
		err = errors.New("address is not the ID of a project of Google Cloud")
	}
	project, topic = address, channel
	full := strings.Split(channel, "/")
	named := len(full) == 4 && full[0] == "projects" && full[2] == "topics"
	if named {
		project, topic = full[1], full[3]
	}
	if !topicForm.MatchString(topic) || named && !projectForm.MatchString(project) {
		err = errors.Join(err, errors.New("spec.channel is neither the ID of a topic, of letters, digits and - . _ ~ + %, "+
			"nor its full name, projects/PROJECT/topics/TOPIC"))
	}
	return project, topic, err
}

// temporary reports whether a refusal is one of those after which Google's own libraries publish again, beyond 429 and 5xx.
func temporary(status int, answer []byte) bool {
	const clientClosed = 499
	switch status {
	case http.StatusConflict:
		return cloudauth.GoogleStatus(answer) == "ABORTED"
	default:
		return status == clientClosed
	}
}

// logIn has a client log in by the key or, without one, by the workload identity.
func logIn(cfg provider.Config, o *provider.ClientOptions) (err error) {
	switch {
	case cfg.Token != "":
		var k *key
		k, err = newKey([]byte(cfg.Token))
		o.Authorize = k.authorization
	case cfg.ServiceAccount == "":
		err = errors.New("the Secret has no key token, a service account's key in JSON, " +
			"and spec.serviceAccountName is not set: one of them logs in")
	default:
		var source *cloudauth.Source
		if source, err = cloudauth.Google(cfg, scope); err == nil {
			source.LogIn(o)
		}
	}
	return err
}

// checkAttributes reports attributes that Pub/Sub refuses. It quotes no name, since a name may be part of a badly quoted value.
func checkAttributes(attributes map[string]string) error {
	if len(attributes) > maxAttributes {
		return errors.New("headers has more than 99 entries, which are the message's attributes")
	}
	for name, value := range attributes {
		switch {
		case name == "" || len(name) > maxAttributeName || len(value) > maxAttributeValue || !utf8.ValidString(name+value):
			return errors.New("headers has an entry that is no attribute: names have 1 to 256 bytes, values up to 1024")
		case strings.HasPrefix(name, "goog"):
			return errors.New(`headers has an entry whose name begins with "goog", which Google keeps for itself`)
		}
	}
	return nil
}

// message is a PubsubMessage. Its data is encoded as base64.
type message struct {
	Data        []byte            `json:"data"`
	Attributes  map[string]string `json:"attributes"`
	OrderingKey string            `json:"orderingKey"`
}

// publish returns the function that makes the request to publish a notification's event to a topic, with the Secret's attributes.
func publish(project, topic string, attributes map[string]string) func(*provider.Client, provider.Notification) (provider.Request, error) {
	return func(c *provider.Client, n provider.Notification) (provider.Request, error) {
		data, err := provider.EventJSON(n.Event, maxEvent)
		m := message{Data: data, Attributes: make(map[string]string, len(attributes)+1), OrderingKey: orderingKey(n.Event)}
		maps.Copy(m.Attributes, attributes)
		m.Attributes[idempotencyKey] = n.DeliveryID // even over the Secret's: with one key a subscriber would drop all messages but the first
		u := c.URL("v1", "projects", project, "topics", topic+":publish")
		return provider.Request{URL: u, JSON: map[string][]message{"messages": {m}}}, err
	}
}

// orderingKey returns the object's name with its kind and namespace, cut to Pub/Sub's limit.
func orderingKey(e event.Event) string {
	o := e.InvolvedObject
	key := strings.ToValidUTF8(o.Namespace+"/"+o.Kind+"/"+o.Name, "\uFFFD")
	for len(key) > maxOrderingKey {
		_, size := utf8.DecodeLastRuneInString(key)
		key = key[:len(key)-size]
	}
	return key
}

package googlepubsub

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
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

// Sender publishes to one topic.
type Sender struct {
	*provider.Client
	url        *url.URL
	attributes map[string]string
	// source is nil unless a workload identity logs in.
	source *cloudauth.Source
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) { return build(cfg, endpoint) }

func build(cfg provider.Config, endpoint string) (*Sender, error) {
	project, topic := strings.TrimSpace(cfg.Address), cfg.Channel
	var projectErr, topicErr error
	if project == "" {
		return nil, provider.ErrNoAddress
	}
	if !projectForm.MatchString(project) {
		projectErr = errors.New("address is not the ID of a project of Google Cloud")
	}
	if !topicForm.MatchString(topic) {
		topicErr = errors.New("spec.channel is not the ID of a topic: letters, digits and - . _ ~ + %")
	}
	cfg.Address = endpoint
	if cfg.Token == "" {
		cfg = cloudauth.Public(cfg)
	}
	s := &Sender{attributes: cfg.Headers}
	o := provider.ClientOptions{Word: cloudauth.GoogleStatus, Temporary: temporary}
	loginErr := s.logIn(cfg, &o)
	var clientErr error
	s.Client, clientErr = provider.NewClient(cfg, o)
	if err := errors.Join(projectErr, topicErr, checkAttributes(cfg.Headers), clientErr, loginErr); err != nil {
		return nil, err
	}
	s.url = s.URL("v1", "projects", project, "topics", topic+":publish")
	return s, nil
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

// logIn has the Sender log in by the key or, without one, by the workload identity.
func (s *Sender) logIn(cfg provider.Config, o *provider.ClientOptions) (err error) {
	switch {
	case cfg.Token != "":
		var k *key
		k, err = newKey([]byte(cfg.Token))
		o.Authorize = k.authorization
	case cfg.ServiceAccount == "":
		err = errors.New("the Secret has no key token, a service account's key in JSON, " +
			"and spec.serviceAccountName is not set: one of them logs in")
	default:
		s.source, err = cloudauth.Google(cfg, scope)
		o.Authorize = s.source.Authorization
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

// Close closes idle connections.
func (s *Sender) Close() error { return errors.Join(s.Client.Close(), s.source.Close()) }

// message is a PubsubMessage. Its data is encoded as base64.
type message struct {
	Data        []byte            `json:"data"`
	Attributes  map[string]string `json:"attributes"`
	OrderingKey string            `json:"orderingKey"`
}

// Send publishes the notification's event.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	data, err := provider.EventJSON(n.Event, maxEvent)
	if err != nil {
		return err
	}
	m := message{Data: data, Attributes: make(map[string]string, len(s.attributes)+1), OrderingKey: orderingKey(n.Event)}
	maps.Copy(m.Attributes, s.attributes)
	m.Attributes[idempotencyKey] = n.DeliveryID // even over the Secret's: with one key a subscriber would drop all messages but the first
	return s.Post(ctx, provider.Request{URL: s.url, JSON: map[string][]message{"messages": {m}}})
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

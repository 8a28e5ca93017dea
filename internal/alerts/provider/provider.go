package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"notifier/internal/event"
)

// defaultTimeout bounds a send when the spec names no timeout.
const defaultTimeout = 15 * time.Second

// Notification is one event for one destination.
type Notification struct {
	// Event has the metadata as the Alert merged it.
	Event event.Event
	// Authored are the keys of the metadata that the Alert's author wrote (event.Delivery.Authored).
	Authored []string
	// Annotated are those of them for which the object has an annotation as well (event.Delivery.Annotated).
	Annotated []string
	// DeliveryID is the same at every attempt to send this notification.
	DeliveryID string
	// Replayed means that the notification had ended before and is sent again. Newer notifications of its object may have been sent
	// since.
	Replayed bool
	// Since is when this process began to deliver to the destination, without a break. Before that another process may have delivered.
	Since time.Time
	// Alert is the name of its Alert, in the namespace of the event's object, and AlertUID is the Alert's UID.
	Alert, AlertUID string
}

// Reported returns the metadata entry of key, without the key's prefix, if the object or its controller reports one. It is empty if the
// Alert's author alone wrote the entry: no author decides which events a type takes. Of a reported entry the author may have changed the
// value, as with Flux.
func (n Notification) Reported(key string) string {
	if slices.Contains(n.Authored, key) && !slices.Contains(n.Annotated, key) {
		return ""
	}
	return n.Event.Metadata[key]
}

// Sender sends notifications to one destination. Implementations are safe for concurrent use.
type Sender interface {
	// Send makes one attempt. A failure is an *event.Error.
	Send(ctx context.Context, n Notification) error
	// Close closes idle connections and leaves sends under way alone.
	Close() error
}

// Builder returns a type's New with the interface as its result. With an error it returns a nil interface, not a nil pointer in it.
func Builder[S Sender](build func(Config) (S, error)) func(Config) (Sender, error) {
	return func(cfg Config) (Sender, error) {
		s, err := build(cfg)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// Sparing is a Sender that knows of notifications that would change nothing at its destination. The deliverer drops them.
type Sparing interface {
	Sender
	// Needless reports whether a notification would change nothing. It holds until another notification of the same object is sent.
	Needless(n Notification) bool
}

// Config is a Provider's spec together with the values of its Secrets.
type Config struct {
	// Type is the Provider's spec.type.
	Type string
	// Namespace and UID are the Provider's.
	Namespace, UID string
	// Address is the destination's URL. It is a secret: the address of an incoming webhook is its credential.
	Address string
	// Channel is a channel's name or ID, as the type defines it.
	Channel string
	// Username is the name shown as the author, or the one to log in with, as the type defines it.
	Username string
	// SecretUsername means that Username is from the Secret, so that it is no name to show.
	SecretUsername bool
	// Password belongs to Username for types that log in.
	Password string
	// Token is a bearer token, or the key of a signature. It is used untrimmed.
	Token string
	// Headers are sent by the types that document them.
	Headers map[string]string
	// Values are the values of the Secret's keys that the type reads besides the common ones. Its row in the registry lists the keys.
	// An absent or empty key has no entry.
	Values map[string]string
	// ServiceAccount is spec.serviceAccountName, the account in the Provider's namespace whose workload identity logs in.
	ServiceAccount string
	// JetStream is spec.jetstream, for type nats.
	JetStream bool
	// Identity returns a token of ServiceAccount for an audience, nil where the installation has no workload identity. Its errors are
	// *event.Error.
	Identity func(ctx context.Context, audience string) (string, error)
	// Annotations returns the annotations of ServiceAccount, which name its identity at a cloud. It is nil if Identity is nil, and its
	// errors are of the same kind.
	Annotations func(ctx context.Context) (map[string]string, error)
	// StatusName returns the name of a commit status by spec.commitStatusExpr. It is nil if the spec has no such expression. Its
	// errors are *event.Error.
	StatusName func(ctx context.Context, n Notification) (string, error)
	// Proxy is the proxy of the destination. With an empty address the connection is direct.
	Proxy Proxy
	// TLS is for https destinations and proxies.
	TLS TLS
	// Timeout bounds one send, from resolving the name to the end of the answer. Zero means 15 seconds.
	Timeout time.Duration
	// Network decides which addresses may be reached.
	Network Network
}

// Proxy is an http, https or socks5 proxy.
type Proxy struct {
	// Address is the proxy's URL. It may contain credentials, which Username and Password replace.
	Address  string
	Username string
	Password string
}

// TLS has PEM blocks. An empty one is not used.
type TLS struct {
	// CA replaces the system's pool of trusted authorities.
	CA []byte
	// Cert and Key are the client's certificate and its key: both or neither.
	Cert []byte
	Key  []byte
}

// TLSKeys are the keys of TLS material in a Secret: the authorities, the certificate and its key. Each has its name and then the name
// that older Secrets use.
var TLSKeys = [6]string{"ca.crt", "caFile", "tls.crt", "certFile", "tls.key", "keyFile"}

// ReadTLS returns the TLS material of a Secret; value returns the Secret's value of a key.
func ReadTLS(value func(key string) string) TLS {
	either := func(i int) []byte { return []byte(cmp.Or(value(TLSKeys[i]), value(TLSKeys[i+1]))) }
	return TLS{CA: either(0), Cert: either(2), Key: either(4)}
}

// String returns the type alone: nearly every other field is a secret.
func (c Config) String() string { return fmt.Sprintf("provider.Config{Type:%q}", c.Type) }

// GoString returns String, so that %#v shows no secret either.
func (c Config) GoString() string { return c.String() }

// LogValue returns String, for structured logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) timeout() (time.Duration, error) {
	if c.Timeout < 0 {
		return 0, errors.New("timeout is negative")
	}
	return cmp.Or(c.Timeout, defaultTimeout), nil
}

// The labels of failed sends: event.Error.Label is always one of them.
const (
	LabelTimeout  = "timeout"  // no answer in time
	LabelCanceled = "canceled" // the caller gave up
	LabelDNS      = "dns"      // the name did not resolve
	LabelConnect  = "connect"  // no connection, or it broke
	LabelTLS      = "tls"      // no TLS, or a certificate that does not verify
	LabelProxy    = "proxy"    // the proxy refused or could not be reached
	LabelDenied   = "denied"   // the address may not be reached
	LabelRedirect = "http_3xx"
	LabelLimited  = "http_429"
	LabelClient   = "http_4xx"
	LabelServer   = "http_5xx"
	LabelRejected = "rejected" // the destination understood and refused, by other means than a status
	LabelReply    = "reply"    // the answer was not a valid one
	LabelPayload  = "payload"  // the message could not be built
	LabelOther    = "other"
)

// Labels returns every label that a failed send can have.
func Labels() []string {
	return []string{
		LabelTimeout, LabelCanceled, LabelDNS, LabelConnect, LabelTLS, LabelProxy, LabelDenied, LabelRedirect, LabelLimited,
		LabelClient, LabelServer, LabelRejected, LabelReply, LabelPayload, LabelOther,
	}
}

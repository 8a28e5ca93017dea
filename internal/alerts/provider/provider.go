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

// DefaultTimeout bounds a send when the spec says nothing.
const DefaultTimeout = 15 * time.Second

// Notification is one event on its way to one destination.
type Notification struct {
	// Event carries the metadata as the Alert merged it.
	Event event.Event
	// Authored are the keys of the metadata that the Alert's author wrote (event.Delivery.Authored).
	Authored []string
	// DeliveryID is the same at every attempt to send this notification.
	DeliveryID string
	// Replayed says that it had ended before and is sent anew, after all or once more: newer ones of its object may have been sent since.
	Replayed bool
	// Alert is the name of the Alert that asked for it, in the namespace of the event's object, and AlertUID is its UID.
	Alert, AlertUID string
}

// Reported returns an entry of the metadata that the object or its controller reports, without the prefix of its key. It is empty where
// the Alert's author wrote the entry: no author decides which events a type takes.
func (n Notification) Reported(key string) string {
	if slices.Contains(n.Authored, key) {
		return ""
	}
	return n.Event.Metadata[key]
}

// Sender sends notifications to one destination. Implementations are safe for concurrent use; one that holds connections
// is also an io.Closer, and Close drops those that are idle without disturbing sends that are under way.
type Sender interface {
	// Send makes one attempt. A failure is an *event.Error.
	Send(ctx context.Context, n Notification) error
}

// Config is a Provider's spec with the values of its Secrets already in place.
type Config struct {
	// Type is the Provider's spec.type.
	Type string
	// Namespace, Name and UID are the Provider's.
	Namespace, Name, UID string
	// Address is the destination's URL. It is a secret: the address of an incoming webhook is its credential.
	Address string
	// Channel is what the type understands by it: a channel's name or ID.
	Channel string
	// Username is the name to show as the author, or to log in with, as the type understands it.
	Username string
	// Password belongs to Username for types that log in.
	Password string
	// Token is a bearer token, or the key of a signature. It is used as it is, untrimmed.
	Token string
	// Headers are sent along by the types that say so.
	Headers map[string]string
	// Values are those of the keys that the type reads of the Secret beside the common ones, as its row in the registry lists them. A key
	// that is absent or empty has none.
	Values map[string]string
	// ServiceAccount is spec.serviceAccountName, the account in the Provider's namespace whose workload identity logs in.
	ServiceAccount string
	// JetStream is spec.jetstream, for type nats.
	JetStream bool
	// Identity returns a token of ServiceAccount for an audience, nil where the installation has no workload identity. Its errors are
	// *event.Error.
	Identity func(ctx context.Context, audience string) (string, error)
	// Annotations returns those of ServiceAccount, by which it names its identity at a cloud. It is nil where Identity is, and its errors
	// are of the same kind.
	Annotations func(ctx context.Context) (map[string]string, error)
	// StatusName returns the name of a commit status as spec.commitStatusExpr has it, nil where the spec has none. Its errors are
	// *event.Error.
	StatusName func(ctx context.Context, n Notification) (string, error)
	// Proxy is the way to the destination, direct when its address is empty.
	Proxy Proxy
	// TLS is for https destinations and proxies.
	TLS TLS
	// Timeout bounds one send from resolving the name to the end of the answer. Zero means DefaultTimeout.
	Timeout time.Duration
	// Network says which addresses may be reached.
	Network Network
}

// Proxy is an http, https or socks5 proxy.
type Proxy struct {
	// Address is the proxy's URL; it may hold credentials, which Username and Password replace.
	Address  string
	Username string
	Password string
}

// TLS holds PEM blocks. An empty one is not used.
type TLS struct {
	// CA replaces the system's pool of trusted authorities.
	CA []byte
	// Cert and Key are the client's certificate; both or neither.
	Cert []byte
	Key  []byte
}

// TLSKeys are the keys of TLS material in a Secret: the authorities, the certificate and its key, each by its name and by the name that
// older Secrets have for it.
var TLSKeys = [6]string{"ca.crt", "caFile", "tls.crt", "certFile", "tls.key", "keyFile"}

// ReadTLS returns the TLS material of a Secret, by its value for a key.
func ReadTLS(value func(key string) string) TLS {
	either := func(i int) []byte { return []byte(cmp.Or(value(TLSKeys[i]), value(TLSKeys[i+1]))) }
	return TLS{CA: either(0), Cert: either(2), Key: either(4)}
}

// WithSecretTLS returns the Config with the TLS material of Values, for types that list TLSKeys among their keys, unless it has some.
func (c Config) WithSecretTLS() Config {
	if len(c.TLS.CA)+len(c.TLS.Cert)+len(c.TLS.Key) == 0 {
		c.TLS = ReadTLS(func(key string) string { return c.Values[key] })
	}
	return c
}

// String names the type alone: nearly every other field is a secret.
func (c Config) String() string { return fmt.Sprintf("provider.Config{Type:%q}", c.Type) }

// GoString is String, so that %#v gives no secret away either.
func (c Config) GoString() string { return c.String() }

// LogValue is String for structured logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) timeout() (time.Duration, error) {
	switch {
	case c.Timeout < 0:
		return 0, errors.New("timeout is negative")
	case c.Timeout == 0:
		return DefaultTimeout, nil
	default:
		return c.Timeout, nil
	}
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
	LabelRejected = "rejected" // the destination understood and said no, by other means than a status
	LabelReply    = "reply"    // the answer was no valid one
	LabelPayload  = "payload"  // the message could not be built
	LabelOther    = "other"
)

// Labels returns every label a failed send can have.
func Labels() []string {
	return []string{
		LabelTimeout, LabelCanceled, LabelDNS, LabelConnect, LabelTLS, LabelProxy, LabelDenied, LabelRedirect, LabelLimited,
		LabelClient, LabelServer, LabelRejected, LabelReply, LabelPayload, LabelOther,
	}
}

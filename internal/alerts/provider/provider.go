package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// Alert is the name of the Alert that asked for it, in the namespace of the event's object.
	Alert string
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
	// Headers are sent along by the generic types.
	Headers map[string]string
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

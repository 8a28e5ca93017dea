package nats

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// refusals are the known refusals of a server. A refusal is permanent if the configuration has to change.
var refusals = []struct {
	cause  error
	class  event.Class
	label  string
	reason string
}{
	{provider.ErrTooMuch, event.Retry, provider.LabelReply, "the server's answer is too long"},
	{nats.ErrPermissionViolation, event.Permanent, provider.LabelRejected, "NATS: no permission to publish to the subject"},
	{nats.ErrAuthorization, event.Permanent, provider.LabelRejected, "NATS: authorization violation"},
	{nats.ErrAuthExpired, event.Permanent, provider.LabelRejected, "NATS: authentication expired"},
	{nats.ErrAuthRevoked, event.Permanent, provider.LabelRejected, "NATS: authentication revoked"},
	{nats.ErrAccountAuthExpired, event.Permanent, provider.LabelRejected, "NATS: account authentication expired"},
	{nats.ErrNkeysNotSupported, event.Permanent, provider.LabelRejected, "NATS: the server takes no login with creds or nkey"},
	{nats.ErrMaxPayload, event.Permanent, provider.LabelPayload, "NATS: the message is larger than the server takes"},
	{jetstream.ErrStreamMessageExceedsMaximum, event.Permanent, provider.LabelPayload, "NATS: the message is larger than the stream takes"},
	{nats.ErrMaxConnectionsExceeded, event.Retry, provider.LabelLimited, "NATS: maximum connections exceeded"},
	{nats.ErrMaxAccountConnectionsExceeded, event.Retry, provider.LabelLimited, "NATS: maximum account connections exceeded"},
	{nats.ErrSecureConnWanted, event.Retry, provider.LabelTLS, "host does not speak TLS"},
	{jetstream.ErrNoStreamResponse, event.Retry, provider.LabelRejected, "NATS: no stream has the subject, or JetStream is away"},
	{nats.ErrNoInfoReceived, event.Retry, provider.LabelReply, "the server does not speak NATS"},
	{nats.ErrTimeout, event.Retry, provider.LabelTimeout, "no answer in time"},
	{nats.ErrConnectionClosed, event.Retry, provider.LabelConnect, "connection closed"},
	{nats.ErrStaleConnection, event.Retry, provider.LabelConnect, "connection closed"},
	{nats.ErrDisconnected, event.Retry, provider.LabelConnect, "connection closed"},
	{nats.ErrNoServers, event.Retry, provider.LabelConnect, "connection failed"},
}

// first is the number of refusals that take precedence over the error that the send ended with.
const first = 2

// classify returns the class, label and reason of a failed send. Errors of the library quote the server, so none of them is shown.
func classify(ctx context.Context, err error) *event.Error {
	if errors.Is(err, errGreeting) && errors.Is(err, context.DeadlineExceeded) {
		return provider.At("greeting", context.DeadlineExceeded)
	}
	if done := ctx.Err(); done != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		return provider.Classify(done)
	}
	for _, r := range refusals[:first] {
		if errors.Is(err, r.cause) {
			return event.NewError(r.class, r.label, r.reason, err)
		}
	}
	known := provider.Classify(err)
	if known.Label != provider.LabelOther && known.Label != provider.LabelConnect {
		return known
	}
	for _, r := range refusals {
		if errors.Is(err, r.cause) {
			return event.NewError(r.class, r.label, r.reason, err)
		}
	}
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		return event.NewError(event.Retry, provider.LabelRejected, "NATS: the stream refuses the message", err)
	}
	if known.Label == provider.LabelConnect {
		return known
	}
	return event.NewError(event.Retry, provider.LabelReply, "the server's answer is not one of NATS", err)
}

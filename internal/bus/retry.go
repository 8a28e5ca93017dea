package bus

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"notifier/internal/fair"
)

const (
	// openTimeout is how long a start waits for a server that is away: because it was started together with this process, restarts or has no
	// leader yet. After that the process ends with an error.
	openTimeout = 30 * time.Second
	// openRetry is how long it waits before it asks again.
	openRetry = 250 * time.Millisecond
	// warnEvery is the least time between two warnings that it is away.
	warnEvery = 10 * time.Second
	// followRetry is the pause before following a stream is resumed.
	followRetry = time.Second
	// firstTry bounds the first try of a step. Each further try takes up to twice as long: servers without a leader do not answer.
	firstTry = time.Second
)

// untilReachable repeats a step of the start, while it fails because the server is away or lags, and until ctx ends. The step must be
// repeatable.
func (b *Bus) untilReachable(ctx context.Context, step func(context.Context) error) error {
	warnings := rate.Sometimes{Interval: warnEvery}
	for within := firstTry; ; within = min(2*within, apiTimeout) {
		try, cancel := context.WithTimeout(ctx, within)
		err := step(try)
		cancel()
		if err == nil || !away(err) && !lags(err) {
			return err
		}
		warnings.Do(func() { b.log.Warn("waiting for NATS", "error", err) })
		if fair.Sleep(ctx, openRetry) != nil {
			return err
		}
	}
}

// resuming calls follow, which reads a stream until it is interrupted, again and again until ctx ends.
func (b *Bus) resuming(ctx context.Context, stream string, follow func() error) {
	warnings := rate.Sometimes{Interval: warnEvery}
	for ctx.Err() == nil {
		if err := follow(); err != nil && ctx.Err() == nil {
			warnings.Do(func() { b.log.Warn("following a stream was interrupted", "stream", stream, "error", err) })
		}
		_ = fair.Sleep(ctx, followRetry)
	}
}

// codeNoPeers is the answer of a cluster that does not yet have enough servers, as for a moment at its start.
const codeNoPeers = 10005

// lags reports whether an error means that a server of a cluster does not know what was made through another one a moment ago.
func lags(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound)
}

// away reports whether an error means that the server, or the leader of a stream, cannot be reached now.
func away(err error) bool {
	for _, passing := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoServers, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
		jetstream.ErrNoStreamResponse, io.EOF,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	// A name without addresses, and a connection that is refused or cut, mean a server that is not there yet or no longer.
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (refused.Code == http.StatusServiceUnavailable || refused.ErrorCode == codeNoPeers)
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// subjectReplica begins the subject on which each replica answers whether it runs.
const subjectReplica = "notifier.replica."

// aliveTimeout bounds one question.
const aliveTimeout = time.Second

// Replica returns the name of this process among its peers. No earlier or later process has the same name.
func (b *Bus) Replica() string { return b.opts.ReplicaID }

// followReplicas answers the other replicas' Alive, and follows the worker, until the connection is closed.
func (b *Bus) followReplicas() error {
	if _, err := b.nc.Subscribe(subjectReplica+keyToken(b.opts.ReplicaID), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		return fmt.Errorf("answer other replicas: %w", err)
	}
	return b.followBacklogged()
}

// Alive reports whether a replica of that name is connected to the bus. It asks the replica; the server reports when no connection of that
// name is left. Without an answer in time Alive returns true, since the replica may be connected.
func (b *Bus) Alive(ctx context.Context, replica string) bool {
	if replica == b.opts.ReplicaID {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	_, err := b.nc.RequestWithContext(ctx, subjectReplica+keyToken(replica), nil)
	return !errors.Is(err, nats.ErrNoResponders)
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// nakDelay is how soon a returned message is handed out again. It keeps a loop of Nak from spinning.
const nakDelay = time.Second

// acker acknowledges a message of a work queue that was handed to this process.
type acker struct {
	msg   *nats.Msg // has no content, which may be large while the stage has a copy
	ended atomic.Bool
	// onDone is called once, when the message is done or returned.
	onDone func()

	stream jetstream.Stream
	nc     *nats.Conn
	lost   uint64 // connections, when the message came
}

func (c *consumer) newAcker(m *nats.Msg) *acker {
	nc := c.bus.nc
	return &acker{msg: &nats.Msg{Reply: m.Reply, Sub: m.Sub}, stream: c.bus.streams[c.role.stream], nc: nc, lost: nc.Stats().Reconnects}
}

// isStored reports whether the stream still has the message. A server that was restarted may have lost the end of the stream, and given the
// message's place to another one, which the server would take an acknowledgement for.
func (h *acker) isStored(ctx context.Context) (bool, error) {
	if h.nc.Stats().Reconnects == h.lost {
		return true, nil
	}
	meta, err := h.msg.Metadata()
	if err != nil {
		return false, err
	}
	m, err := h.stream.GetMsg(ctx, meta.Sequence.Stream)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil && m.Time.Equal(meta.Timestamp), err
}

// Ack acknowledges the message and returns when the server has confirmed it. After a failure the message may be handed out again, and Ack
// may be called again.
//
// The confirmation is worth its round trip: if an acknowledgement were lost with a connection, the message would be handed out again while
// its successor is being sent.
func (h *acker) Ack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	stored, err := h.isStored(ctx)
	if stored {
		err = h.msg.AckSync(nats.Context(ctx))
	}
	return h.end("acknowledge", err)
}

// InProgress restarts the server's clock for this message.
func (h *acker) InProgress() error {
	if err := h.msg.InProgress(); err != nil {
		return fmt.Errorf("mark message as in progress: %w", err)
	}
	return nil
}

// Nak returns the message to the server, which hands it out again after nakDelay.
func (h *acker) Nak() error { return h.end("return", h.msg.NakWithDelay(nakDelay)) }

// end ends the message. After an error of the server, too, no stage has it in hand any more.
func (h *acker) end(action string, err error) error {
	if !h.ended.Swap(true) && h.onDone != nil {
		h.onDone()
	}
	if err != nil {
		return fmt.Errorf("%s message: %w", action, err)
	}
	return nil
}

package bus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// nakDelay is how soon a returned message is handed out again. It keeps a loop of Nak from spinning.
const nakDelay = time.Second

// acker acknowledges a message of a work queue that was handed to this process.
type acker struct {
	msg   *nats.Msg // has no content, which may be large while the stage has a copy
	ended atomic.Bool
	// onDone is called once, when the message is done or returned.
	onDone func()
}

func newAcker(m *nats.Msg) *acker { return &acker{msg: &nats.Msg{Reply: m.Reply, Sub: m.Sub}} }

// Ack acknowledges the message and returns when the server has confirmed it. After a failure the message may be handed out again, and Ack
// may be called again.
//
// The confirmation is worth its round trip: if an acknowledgement were lost with a connection, the message would be handed out again while
// its successor is being sent.
func (h *acker) Ack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return h.end("acknowledge", h.msg.AckSync(nats.Context(ctx)))
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

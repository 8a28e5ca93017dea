package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// nakDelay is how soon a returned message is handed out again. It keeps a loop of Nak from spinning.
const nakDelay = time.Second

var (
	ackDone     = []byte("+ACK")
	ackProgress = []byte("+WPI")
)

// errAcked is returned for a second Ack or Nak.
var errAcked = errors.New("message was acknowledged already")

// acker acknowledges a message of a work queue that was handed to this process.
type acker struct {
	bus   *Bus
	reply string
	ended atomic.Bool
	// onDone is called once, when the message is done or returned.
	onDone func()
}

// Ack acknowledges the message and returns when the server has confirmed it. After a failure the message may be handed out again, and Ack
// may be called again.
//
// The confirmation is worth its round trip: if an acknowledgement were lost with a connection, the message would be handed out again while
// its successor is being sent.
func (h *acker) Ack(ctx context.Context) error {
	if h.ended.Load() {
		return errAcked
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if _, err := h.bus.nc.RequestWithContext(ctx, h.reply, ackDone); err != nil {
		return fmt.Errorf("acknowledge message: %w", err)
	}
	h.end()
	return nil
}

// ackSoon acknowledges without waiting. The server handles acknowledgements of one connection in order, so a later confirmed Ack confirms
// this one.
func (h *acker) ackSoon() error {
	if err := h.bus.nc.Publish(h.reply, ackDone); err != nil {
		return fmt.Errorf("acknowledge message: %w", err)
	}
	h.end()
	return nil
}

// InProgress restarts the server's clock for this message.
func (h *acker) InProgress() error {
	if h.ended.Load() {
		return errAcked
	}
	if err := h.bus.nc.Publish(h.reply, ackProgress); err != nil {
		return fmt.Errorf("mark message as in progress: %w", err)
	}
	return nil
}

// Nak returns the message to the server, which hands it out again after nakDelay.
func (h *acker) Nak() error {
	if h.ended.Load() {
		return errAcked
	}
	if err := h.bus.nc.Publish(h.reply, nak(nakDelay)); err != nil {
		return fmt.Errorf("return message: %w", err)
	}
	h.end()
	return nil
}

func (h *acker) end() {
	if !h.ended.Swap(true) && h.onDone != nil {
		h.onDone()
	}
}

func nak(delay time.Duration) []byte {
	body, _ := json.Marshal(struct {
		Delay time.Duration `json:"delay"`
	}{delay}) // an integer always encodes
	return append([]byte("-NAK "), body...)
}

// delivered is the server's metadata of a message that it hands out.
type delivered struct {
	seq   uint64 // in the stream
	times uint64 // how often it was handed out, this time included
}

func metadataOf(m *nats.Msg) (delivered, error) {
	meta, err := m.Metadata()
	if err != nil {
		return delivered{}, fmt.Errorf("read metadata: %w", err)
	}
	return delivered{seq: meta.Sequence.Stream, times: meta.NumDelivered}, nil
}

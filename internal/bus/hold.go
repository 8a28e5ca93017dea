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

// returnDelay is how soon a returned message is handed out again. It keeps a loop of Return from spinning.
const returnDelay = time.Second

var (
	ackDone    = []byte("+ACK")
	ackWorking = []byte("+WPI")
)

// errSettled is returned for a second Done or Return.
var errSettled = errors.New("message is settled already")

// hold is a message of a work queue or log that this process has to settle.
type hold struct {
	bus     *Bus
	reply   string
	settled atomic.Bool
	// onSettled is told once, when the message is done or returned.
	onSettled func()
}

// Done acknowledges the message and returns when the server has confirmed it. After a failure the message may come back, and
// Done may be called again.
//
// The confirmation is worth its round trip: an acknowledgement that was lost with a connection would bring the message back
// while its successor is being sent.
func (h *hold) Done(ctx context.Context) error {
	if h.settled.Load() {
		return errSettled
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if _, err := h.bus.nc.RequestWithContext(ctx, h.reply, ackDone); err != nil {
		return fmt.Errorf("acknowledge message: %w", err)
	}
	h.end()
	return nil
}

// doneSoon acknowledges without waiting. The server handles acknowledgements of one connection in order, so a later Done that
// is confirmed confirms this one.
func (h *hold) doneSoon() error {
	if err := h.bus.nc.Publish(h.reply, ackDone); err != nil {
		return fmt.Errorf("acknowledge message: %w", err)
	}
	h.end()
	return nil
}

// Working restarts the server's clock for this message.
func (h *hold) Working() error {
	if h.settled.Load() {
		return errSettled
	}
	if err := h.bus.nc.Publish(h.reply, ackWorking); err != nil {
		return fmt.Errorf("extend hold: %w", err)
	}
	return nil
}

// Return gives the message back, to be handed out again after returnDelay.
func (h *hold) Return() error {
	if h.settled.Load() {
		return errSettled
	}
	if err := h.bus.nc.Publish(h.reply, nak(returnDelay)); err != nil {
		return fmt.Errorf("return message: %w", err)
	}
	h.end()
	return nil
}

func (h *hold) end() {
	if !h.settled.Swap(true) && h.onSettled != nil {
		h.onSettled()
	}
}

func nak(delay time.Duration) []byte {
	body, _ := json.Marshal(struct {
		Delay time.Duration `json:"delay"`
	}{delay}) // an integer always encodes
	return append([]byte("-NAK "), body...)
}

// delivered is what the server says about a message that it hands out.
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

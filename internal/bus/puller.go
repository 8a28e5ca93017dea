package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// Answers of the server to a pull request.
const (
	statusHeartbeat    = "100"
	statusConflict     = "409"
	statusWrongPin     = "423"
	statusNoResponders = "503"
)

const (
	headerStatus = "Status"
	headerDesc   = "Description"
	headerPin    = "Nats-Pin-Id"
)

// incoming is a decoded message that was not handed out yet.
type incoming[T any] struct {
	message event.Message[T]
	acker   *acker // of message
	msg     *nats.Msg
	// noted is true when the message is recorded as a suspect that was handed out.
	noted bool
}

// puller moves the messages of one consumer from the server to the stage that serves it. It asks for no more than its queue takes, so no
// message waits in a client's buffer, where it would not be marked as in progress.
type puller[T any] struct {
	c     *consumer
	stage stage[T]
	out   chan event.Message[T]

	inbox      string
	msgs       chan *nats.Msg
	pin        string
	asked      int              // messages that the server has yet to send
	answeredAt time.Time        // when the server last answered the request, or the request was sent
	unheard    time.Time        // since when nobody takes requests, zero if the last one was taken
	retry      <-chan time.Time // not nil: the server has just refused, ask again when it fires
	queue      []incoming[T]

	live atomic.Int64  // handed out and not acknowledged or returned
	done chan struct{} // has capacity for one: a message that was handed out is done
}

func newPuller[T any](c *consumer, s stage[T], out chan event.Message[T]) *puller[T] {
	return &puller[T]{
		c: c, stage: s, out: out, inbox: c.bus.nc.NewInbox(),
		// Capacity for the messages of two requests, one of which was given up as lost, and answers: a full channel drops messages.
		msgs: make(chan *nats.Msg, 2*pullBatch+64), done: make(chan struct{}, 1),
	}
}

// run pulls until ctx ends. Messages in its queue are then left to the next worker, whose reset makes the server hand them out again.
func (p *puller[T]) run(ctx context.Context) error {
	nc := p.c.bus.nc
	sub, err := nc.ChanSubscribe(p.inbox, p.msgs)
	if err != nil {
		return fmt.Errorf("subscribe for messages: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	back := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(back)
	keep := time.NewTicker(keepInterval)
	defer keep.Stop()
	pulse := time.NewTicker(pullHeartbeat)
	defer pulse.Stop()
	for ctx.Err() == nil && err == nil {
		var out chan event.Message[T]
		var next event.Message[T]
		if err = p.ask(); err != nil {
			break
		}
		if out, next, err = p.next(ctx); err != nil {
			break
		}
		select {
		case <-ctx.Done():
		case m := <-p.msgs:
			err = p.receive(ctx, m)
		case out <- next:
			p.queue = p.queue[1:]
		case <-p.done:
		case <-p.retry:
			p.retry = nil
		case <-back:
			err = errInterrupted
		case <-pulse.C: // p.ask checks the request
		case <-keep.C:
			p.keep()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ask requests more messages when the queue is half empty and the last request is answered. It returns errInterrupted if that request
// counts as lost.
func (p *puller[T]) ask() error {
	p.c.gauge.waiting(len(p.queue))
	if p.asked > 0 && len(p.msgs) == 0 && time.Since(p.answeredAt) > pullTimeout {
		return errInterrupted
	}
	if p.asked > 0 || len(p.queue) > pullLow || p.retry != nil {
		return nil
	}
	batch := pullBatch - len(p.queue)
	request, err := json.Marshal(map[string]any{
		"batch": batch, "max_bytes": p.c.bus.maxPullBytes(), "expires": pullExpiry, "idle_heartbeat": pullHeartbeat,
		"group": priorityGroup, "id": p.pin,
	})
	if err != nil {
		return fmt.Errorf("encode pull request: %w", err)
	}
	subject := "$JS.API.CONSUMER.MSG.NEXT." + p.c.role.stream + "." + p.c.role.name
	if err := p.c.bus.nc.PublishRequest(subject, p.inbox, request); err != nil {
		p.pause() // not connected; the loop continues when it is
		return nil
	}
	p.asked, p.answeredAt = batch, time.Now()
	return nil
}

func (p *puller[T]) pause() { p.retry = time.After(pullRetry) }

// receive takes a message, or an answer to the request.
func (p *puller[T]) receive(ctx context.Context, m *nats.Msg) error {
	p.c.gauge.answered()
	p.answeredAt = time.Now()
	if status := m.Header.Get(headerStatus); status != "" && len(m.Data) == 0 && !strings.HasPrefix(m.Reply, "$JS.ACK.") {
		return p.status(status, m.Header.Get(headerDesc))
	}
	p.unheard = time.Time{}
	if p.asked > 0 {
		p.asked--
	}
	if pin := m.Header.Get(headerPin); pin != "" {
		p.pin = pin
	}
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	h := p.c.newAcker(m)
	if meta.NumDelivered > uint64(p.c.bus.poisoning.maxDeliveries) {
		return p.deadLetter(ctx, h, m, "poison", "handed out too often without an outcome")
	}
	value, err := p.stage.decode(m)
	if err != nil {
		return p.deadLetter(ctx, h, m, "undecodable", err.Error())
	}
	p.queue = append(p.queue, incoming[T]{message: event.Message[T]{Value: value, Seq: meta.Sequence.Stream, Acker: h}, acker: h, msg: m})
	return nil
}

func (p *puller[T]) status(code, description string) error {
	if code != statusNoResponders {
		p.unheard = time.Time{}
	}
	if code == statusHeartbeat || code == statusConflict && strings.Contains(description, "Batch Completed") {
		return nil // in the second case the request was fulfilled, and the next one may be on its way already
	}
	p.asked = 0
	switch {
	case code == statusWrongPin:
		return errFenced
	case code == statusConflict && strings.Contains(description, "Consumer Deleted"):
		return fmt.Errorf("consumer is gone: %s", description)
	case code == statusNoResponders:
		// The consumer is between two leaders, or was deleted. Taken over anew it is made again.
		if p.unheard.IsZero() {
			p.unheard = time.Now()
		}
		if time.Since(p.unheard) > pullTimeout {
			return errInterrupted
		}
		p.pause()
	case code == statusConflict && !strings.Contains(description, "MaxBytes"):
		p.pause()
	case code == "400":
		return fmt.Errorf("pull request refused: %s", description)
	}
	return nil
}

// next returns the head of the queue and the channel to hand it out on, nil when no message can be handed out now.
func (p *puller[T]) next(ctx context.Context) (chan event.Message[T], event.Message[T], error) {
	for len(p.queue) > 0 {
		head := &p.queue[0]
		if p.c.cautious(head.message.Seq) && !head.noted {
			if p.live.Load() > 0 {
				return nil, event.Message[T]{}, nil
			}
			poison, err := p.c.crashes.suspect(ctx, p.c.role.name, head.message.Seq)
			if err != nil {
				return nil, event.Message[T]{}, err
			}
			if poison {
				if err := p.deadLetter(ctx, head.acker, head.msg, "poison", "the process died each time this message was handled"); err != nil {
					return nil, event.Message[T]{}, err
				}
				p.queue = p.queue[1:]
				continue
			}
			head.noted = true
		}
		if head.acker.onDone == nil {
			// Counted before the stage can acknowledge it, and only once: the queue's head may be offered many times.
			p.live.Add(1)
			head.acker.onDone = p.onDone
			if p.stage.offer != nil {
				p.stage.offer(head.msg, &head.message)
			}
		}
		return p.out, head.message, nil
	}
	return nil, event.Message[T]{}, nil
}

func (p *puller[T]) onDone() {
	p.live.Add(-1)
	p.c.gauge.moved()
	select {
	case p.done <- struct{}{}:
	default:
	}
}

// keep marks the messages that were not handed out yet as in progress.
func (p *puller[T]) keep() {
	for _, in := range p.queue {
		if in.acker.InProgress() != nil {
			return // not connected: messages that lapse are handed out again, marked for a recheck
		}
	}
}

// deadLetter writes a message that cannot be handled to DEADLETTERS and acknowledges it. When the write fails, the message is returned to the
// server.
func (p *puller[T]) deadLetter(ctx context.Context, h *acker, m *nats.Msg, label, reason string) error {
	b := p.c.bus
	if err := b.deadLetterRaw(ctx, p.c.role.stream, m, label, reason); err != nil {
		b.log.Error("dead letter not written, the message will be tried again", "namespace", namespaceOf(m.Subject), "error", err)
		return h.Nak()
	}
	return h.end("acknowledge", h.msg.Ack())
}

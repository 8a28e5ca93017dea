package provider

import (
	"context"
	"errors"
	"io"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// Bounds on answers. The author of a destination decides the length and the speed of its answers, for any number of Providers.
const (
	// freeReply is the part of an answer, in bytes, that is read without a place: any number of answers at a time.
	freeReply = 16 << 10
	// mediumReplies is the number of answers of up to mediumReply bytes that are read at a time for the Providers of one namespace, and
	// mediumTotal that of all namespaces. Each namespace has mediumReserve of its own.
	mediumReply   = 256 << 10
	mediumReplies = 64
	mediumReserve = 4
	mediumTotal   = 256
	// longReplies is the number of longer answers that are read at a time for the Providers of one namespace. For one Provider it is
	// one.
	longReplies = 4
	// restTime bounds the time for each of the two further parts of an answer.
	restTime = 5 * time.Second
)

// The places of the namespaces that are reading medium and long answers, and of the Providers that are reading long ones.
var (
	mediums = fair.NewCapacities[string](fair.NewCapacity(mediumTotal), mediumReplies, mediumReserve)
	longs   = fair.NewCapacities[string](nil, longReplies, 0)
	ownLong = fair.NewCapacities[*Client](nil, 1, 0)
)

// reply reads an answer of at most MaxReply bytes. cancel ends a read that is blocked.
func (c *Client) reply(ctx context.Context, body io.Reader, cancel context.CancelFunc) ([]byte, error) {
	namespace, maxReply := c.conns.namespace, c.options.MaxReply
	free := min(maxReply, freeReply)
	answer, err := io.ReadAll(io.LimitReader(body, int64(free)+1))
	switch {
	case err != nil:
		return nil, Classify(err)
	case len(answer) <= free:
		return answer, nil
	case len(answer) > maxReply:
		return nil, ErrTooLong
	}
	medium, err := mediums.Acquire(ctx, namespace, 1)
	if err != nil {
		return nil, Classify(err)
	}
	defer medium.Release()
	answer, ended, err := inTime(body, answer, min(maxReply, mediumReply), cancel)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return answer, nil
	case len(answer) > maxReply:
		return nil, ErrTooLong
	}
	own, err := ownLong.Acquire(ctx, c, 1)
	if err != nil {
		return nil, Classify(err)
	}
	defer own.Release()
	long, err := longs.Acquire(ctx, namespace, 1)
	if err != nil {
		return nil, Classify(err)
	}
	defer long.Release()
	answer, ended, err = inTime(body, answer, maxReply, cancel)
	switch {
	case err != nil:
		return nil, err
	case !ended:
		return nil, ErrTooLong
	}
	return answer, nil
}

// ErrTooLong means that an answer is longer than ClientOptions.MaxReply.
var ErrTooLong = event.NewError(event.Retry, LabelReply, "answer is too long", nil)

// inTime reads on, within restTime, until the answer has ended or has one byte more than most.
func inTime(body io.Reader, begin []byte, most int, cancel context.CancelFunc) (answer []byte, ended bool, err error) {
	timer := time.AfterFunc(restTime, cancel)
	answer = make([]byte, most+1)
	n := copy(answer, begin)
	for n < len(answer) && err == nil {
		var read int
		read, err = body.Read(answer[n:])
		n += read
	}
	late := !timer.Stop()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return answer[:n], n < len(answer), nil
	case late:
		return nil, false, event.NewError(event.Retry, LabelTimeout, "answer takes too long", err)
	default:
		return nil, false, Classify(err)
	}
}

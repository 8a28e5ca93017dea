package provider

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"notifier/internal/event"
)

// Bounds on answers. The author of a destination decides the length and the speed of its answers, for any number of Providers.
const (
	// freeReply is the part of an answer, in bytes, that is read without a place: any number of answers at a time.
	freeReply = 256 << 10
	// longReplies is the number of longer answers that are read at a time for the Providers of one namespace. For one Provider it is
	// one.
	longReplies = 4
	// longTime bounds the time for the rest of a long answer.
	longTime = 5 * time.Second
)

// replies are the places of the namespaces that are reading long answers.
var replies = replyPlaces{shares: map[string]*replyShare{}}

type replyPlaces struct {
	mu     sync.Mutex
	shares map[string]*replyShare
}

type replyShare struct {
	places chan struct{}
	users  int
}

// take waits for a place of the namespace. leave returns the place.
func (r *replyPlaces) take(ctx context.Context, namespace string) (leave func(), err error) {
	r.mu.Lock()
	share := r.shares[namespace]
	if share == nil {
		share = &replyShare{places: make(chan struct{}, longReplies)}
		r.shares[namespace] = share
	}
	share.users++
	r.mu.Unlock()
	forget := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if share.users--; share.users == 0 {
			delete(r.shares, namespace)
		}
	}
	select {
	case share.places <- struct{}{}:
		return func() { <-share.places; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}

// reply reads an answer of at most maxReply bytes. cancel ends a read that is blocked.
func (t *transport) reply(ctx context.Context, body io.Reader, cancel context.CancelFunc) ([]byte, error) {
	free := min(t.maxReply, freeReply)
	answer, err := io.ReadAll(io.LimitReader(body, int64(free)+1))
	switch {
	case err != nil:
		return nil, Classify(err)
	case len(answer) <= free:
		return answer, nil
	case len(answer) > t.maxReply:
		return nil, errTooLong
	}
	select {
	case t.long <- struct{}{}:
		defer func() { <-t.long }()
	case <-ctx.Done():
		return nil, Classify(ctx.Err())
	}
	leave, err := replies.take(ctx, t.namespace)
	if err != nil {
		return nil, Classify(err)
	}
	defer leave()
	timer := time.AfterFunc(longTime, cancel)
	answer, err = t.rest(body, answer)
	if !timer.Stop() && err != nil {
		return nil, event.NewError(event.Retry, LabelTimeout, "answer takes too long", err)
	}
	return answer, err
}

var errTooLong = event.NewError(event.Retry, LabelReply, "answer is too long", nil)

// rest reads the rest of an answer whose beginning was read.
func (t *transport) rest(body io.Reader, begin []byte) ([]byte, error) {
	answer := make([]byte, t.maxReply+1)
	for n := copy(answer, begin); n < len(answer); {
		read, err := body.Read(answer[n:])
		n += read
		switch {
		case errors.Is(err, io.EOF) && n < len(answer):
			return answer[:n], nil
		case err != nil && !errors.Is(err, io.EOF):
			return nil, Classify(err)
		}
	}
	return nil, errTooLong
}

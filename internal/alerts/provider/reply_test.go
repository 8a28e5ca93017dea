package provider

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

const testReply = 4 << 20

// dripping is an answer whose last byte never arrives. It adds the bytes read to a count of all answers.
type dripping struct {
	ctx  context.Context //nolint:containedctx // as that of a request
	left int
	read *atomic.Int64
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.left == 0 {
		<-d.ctx.Done()
		return 0, d.ctx.Err()
	}
	n := min(len(p), d.left)
	d.left -= n
	d.read.Add(int64(n))
	return n, nil
}

func newReader(namespace string) *Client {
	return &Client{options: ClientOptions{MaxReply: testReply}, conns: conns{namespace: namespace}}
}

// Fails when the memory for a tenant's endless answers grows with its Providers and sends, when they delay the answers of another
// namespace, or when they do so for long.
func TestT6AnswersThatDoNotEndTakeUpLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const providers, sends = 30, 8
		var read atomic.Int64
		ended := make(chan error, providers*sends)
		for range providers {
			tr := newReader("hostile")
			for range sends {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					_, err := tr.reply(ctx, &dripping{ctx: ctx, left: testReply - 1, read: &read}, cancel)
					ended <- err
				}()
			}
		}
		synctest.Wait()
		if most := int64(longReplies*testReply + mediumReplies*(mediumReply+1) + providers*sends*(freeReply+1)); read.Load() > most {
			t.Errorf("%d MiB are kept, want %d at most", read.Load()>>20, most>>20)
		}
		began := time.Now()
		answer, err := newReader("other").reply(t.Context(), strings.NewReader(strings.Repeat("x", testReply)), func() {})
		if err != nil || len(answer) != testReply || time.Since(began) != 0 {
			t.Errorf("another namespace: %d bytes, %v, after %v", len(answer), err, time.Since(began))
		}
		began = time.Now()
		answer, err = newReader("hostile").reply(t.Context(), strings.NewReader(strings.Repeat("x", freeReply)), func() {})
		if err != nil || len(answer) != freeReply || time.Since(began) != 0 {
			t.Errorf("a short one: %d bytes, %v, after %v", len(answer), err, time.Since(began))
		}
		if e := event.AsError(<-ended); e.Label != LabelTimeout || time.Since(began) > restTime {
			t.Errorf("the first ended with %v (%s) after %v", e, e.Label, time.Since(began))
		}
		for range providers*sends - 1 {
			if <-ended == nil {
				t.Error("an answer without its end was taken")
			}
		}
		if n := mediums.Len() + longs.Len(); n != 0 {
			t.Errorf("the places of %d namespaces are kept", n)
		}
	})
}

// Fails when answers of a medium length, which all sends of a tenant's Providers may wait for, are kept in any number, or when those of
// other tenants' Providers then get no place.
func TestT6AnswersThatDripTakeUpLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const namespaces, sends = 8, 200
		var read atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for n := range namespaces {
			for range sends {
				go func() {
					_, _ = newReader("hostile"+strconv.Itoa(n)).reply(ctx, &dripping{ctx: ctx, left: mediumReply - 1, read: &read}, func() {})
				}()
			}
		}
		synctest.Wait()
		most := int64((mediumTotal+namespaces*mediumReserve)*mediumReply + namespaces*sends*(freeReply+1))
		if read.Load() > most {
			t.Errorf("%d MiB are kept, want %d at most", read.Load()>>20, most>>20)
		}
		began := time.Now()
		answer, err := newReader("other").reply(t.Context(), strings.NewReader(strings.Repeat("x", mediumReply)), func() {})
		if err != nil || len(answer) != mediumReply || time.Since(began) != 0 {
			t.Errorf("another namespace: %d bytes, %v, after %v", len(answer), err, time.Since(began))
		}
		cancel()
		synctest.Wait()
	})
}

// Fails when an answer is accepted beyond its bound, cut, or accepted although its connection broke.
func TestAnAnswerIsReadWholeOrNotAtAll(t *testing.T) {
	broken := errors.New("broken")
	for _, length := range []int{0, 1, freeReply, freeReply + 1, mediumReply, mediumReply + 1, testReply - 1, testReply, testReply + 1} {
		text := strings.Repeat("x", length)
		answer, err := newReader("n").reply(t.Context(), strings.NewReader(text), func() {})
		if want := length <= testReply; (err == nil) != want || want && string(answer) != text {
			t.Errorf("%d bytes: got %d, %v", length, len(answer), err)
		}
		answer, err = newReader("n").reply(t.Context(), io.MultiReader(strings.NewReader(text), errReader{broken}), func() {})
		if err == nil || answer != nil {
			t.Errorf("%d bytes and a failure: got %d bytes", length, len(answer))
		}
	}
}

type errReader struct{ error }

func (e errReader) Read([]byte) (int, error) { return 0, e.error }

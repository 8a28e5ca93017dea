package server

import (
	"bytes"
	"context"
	"io"
	"testing"

	"golang.org/x/net/http2"

	"notifier/internal/event"
	"notifier/internal/receiver/receivertest"
)

// GO-2026-6617, T6: a client changes the size of the table by which the server compresses headers while answers are written to it. Fails, with
// the process, when that ends it, and when another client is not served meanwhile.
func TestT6NoChangeOfTheHeaderTableEndsTheProcess(t *testing.T) {
	const frames = 400_000
	theirs := newHook(t, "team-b/hook")
	w := newWebhooks(t, receivertest.TriggersFunc(func(context.Context, event.Trigger) error { return nil }), theirs)
	url, s := serveTLS(t, w, nil)
	victim := secureClient(t, "HTTP/2.0")
	for sent := 0; sent < frames; {
		a := attack(t, s)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, a.Conn) // until the server closes
		}()
		for err := error(nil); err == nil && sent < frames; sent += 9 * 20 {
			_, err = a.Write(a.resizing(20))
		}
		_ = a.Close()
		<-gone
	}
	if status, err := send(t.Context(), victim, url+theirs.Path, token, "{}"); err != nil || status/100 != 2 {
		t.Errorf("another client's webhook: %d, %v", status, err)
	}
}

// resizing returns a number of requests for an unknown path with changes of the table's size between them.
func (a *attacker) resizing(requests int) []byte {
	var batch bytes.Buffer
	framer := http2.NewFramer(&batch, nil)
	for i := range requests {
		_ = framer.WriteHeaders(http2.HeadersFrameParam{ // a buffer accepts everything
			StreamID: a.stream, BlockFragment: a.headers("/hook/none", ""), EndHeaders: true, EndStream: true,
		})
		a.stream += 2
		for j := range 8 {
			_ = framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: []uint32{0, 4096, 150, 60}[(i+j)%4]})
		}
	}
	return batch.Bytes()
}

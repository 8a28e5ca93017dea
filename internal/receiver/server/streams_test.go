package server

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// fill opens as many streams as the server admits, each with as many headers, and returns their number.
func (a *attacker) fill(t *testing.T) int {
	t.Helper()
	streams := 0
	for streams == 0 {
		frame, err := a.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			most, _ := settings.Value(http2.SettingMaxConcurrentStreams)
			streams = int(most)
		}
	}
	for range streams {
		a.headers("/hook/x", "")
		for i := range 190 { // with the 32 bytes by which HTTP/2 counts a field, some are left of HeaderBytes
			_ = a.header.WriteField(hpack.HeaderField{Name: fmt.Sprint("x", i)}) // a buffer accepts everything
		}
		if err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.block.Bytes(), EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
		a.stream += 2
	}
	go func() { _, _ = io.Copy(io.Discard, a.Conn) }() // until the test closes it
	return streams
}

// T6: a sender may have all connections of a listener, with a slow body on each stream. Fails when a connection has so many streams that
// their requests take much more memory than that of a connection of HTTP/1, 200 KiB.
func TestT6TheStreamsOfAConnectionTakeLittleMemory(t *testing.T) {
	const connections, most = 40, 512
	entered, release := make(chan struct{}), make(chan struct{})
	_, s := serveTLS(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	}), nil)
	defer close(release)
	var all []*attacker
	for range connections {
		all = append(all, attack(t, s))
	}
	before, streams := memory(), 0
	for _, a := range all {
		n := a.fill(t)
		for range n {
			<-entered
		}
		streams += n
	}
	if held := (memory() - before) >> 10 / connections; held > most {
		t.Errorf("%d streams on %d connections take %d KiB a connection, want at most %d", streams, connections, held, most)
	}
}

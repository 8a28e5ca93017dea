package embedded

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// Fails when the embedded server is written more than maxWrite bytes at a time, which has it make large read buffers all the time, or when
// bytes are lost or moved.
func TestTheEmbeddedServerIsWrittenSmallPortions(t *testing.T) {
	ours, theirs := net.Pipe()
	sent := make([]byte, 3*maxWrite+1)
	for i := range sent {
		sent[i] = byte(i % 251)
	}
	wrote := make(chan int, 1)
	go func() {
		defer ours.Close()
		n, err := portions{ours}.Write(sent)
		if err != nil {
			t.Error(err)
		}
		wrote <- n
	}()
	var got []byte
	for read := make([]byte, len(sent)); ; {
		n, err := theirs.Read(read)
		if got = append(got, read[:n]...); n > maxWrite {
			t.Errorf("%d bytes at a time, at most %d wanted", n, maxWrite)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := <-wrote; n != len(sent) || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes written, %d of %d read", n, len(got), len(sent))
	}
}

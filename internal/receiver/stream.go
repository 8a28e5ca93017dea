package receiver

import (
	"hash/maphash"
	"io"
	"sync"

	"notifier/internal/receiver/limit"
)

var streams = sync.Pool{New: func() any { return new(bodyStream) }}

// bodyStream is the state for reading a body that is not kept.
type bodyStream struct {
	buffer [limit.BufferSize]byte
	digest maphash.Hash
}

// stream reads the body to its end into check, and returns the body's digest, or limit.ErrTooLarge if the body is longer than MaxBody.
func stream(check io.Writer, body io.Reader, seed maphash.Seed) (bodyDigest, error) {
	r := streams.Get().(*bodyStream)
	defer streams.Put(r)
	r.digest.SetSeed(seed)
	for left := limit.MaxBody; ; {
		n, err := body.Read(r.buffer[:])
		if n > left {
			return 0, limit.ErrTooLarge
		}
		left -= n
		_, _ = check.Write(r.buffer[:n]) // hashes do not fail
		_, _ = r.digest.Write(r.buffer[:n])
		if err == io.EOF {
			return bodyDigest(r.digest.Sum64()), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

package receiver

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // senders still sign with HMAC-SHA1, which SHA-1's collisions do not break
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
)

// algorithms are the hashes a signature may name, by their names in the header.
var algorithms = [...]struct {
	name string
	size int
	make func() hash.Hash
}{
	{"sha256", sha256.Size, sha256.New},
	{"sha1", sha1.Size, sha1.New},
	{"sha512", sha512.Size, sha512.New},
}

// macs checks signatures of the form "<algorithm>=<hex>" with one key. A keyed hash costs two compressions to make and
// nothing to reset, so they are kept in a pool for each algorithm.
type macs struct {
	key   []byte
	pools [len(algorithms)]sync.Pool
}

func newMACs(key []byte) *macs { return &macs{key: key} }

// begin starts the check of a body against signature.
func (m *macs) begin(signature string) (Check, error) {
	if signature == "" {
		return nil, refusedNoSignature
	}
	name, digits, found := strings.Cut(signature, "=")
	if !found {
		return nil, refusedMalformed
	}
	for i, a := range algorithms {
		if a.name != name {
			continue
		}
		if len(digits) != hex.EncodedLen(a.size) {
			return nil, refusedMalformed
		}
		c, ok := m.pools[i].Get().(*macCheck)
		if !ok {
			c = &macCheck{Hash: hmac.New(a.make, m.key), size: a.size, pool: &m.pools[i]}
		}
		copy(c.digits[:], digits)
		if _, err := hex.Decode(c.want[:], c.digits[:len(digits)]); err != nil {
			c.pool.Put(c)
			return nil, refusedMalformed
		}
		return c, nil
	}
	return nil, refusedAlgorithm
}

// macCheck hashes one body and compares. It returns to its pool when it has finished.
type macCheck struct {
	hash.Hash
	size   int
	pool   *sync.Pool
	digits [2 * sha512.Size]byte
	want   [sha512.Size]byte
	sum    [sha512.Size]byte
}

// Finish compares in constant time.
func (c *macCheck) Finish([]byte) (Claims, error) {
	got := c.Sum(c.sum[:0])
	equal := hmac.Equal(got, c.want[:c.size])
	c.Reset()
	c.pool.Put(c)
	if !equal {
		return nil, refusedMismatch
	}
	return nil, nil
}

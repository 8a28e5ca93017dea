package verify

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

// algorithms are the hashes that a signature may name, by their names in the header.
var algorithms = [...]struct {
	name string
	size int
	make func() hash.Hash
}{
	macSHA256: {"sha256", sha256.Size, sha256.New},
	macSHA1:   {"sha1", sha1.Size, sha1.New},
	macSHA512: {"sha512", sha512.Size, sha512.New},
}

// The indices of algorithms, for senders whose signatures name none.
const (
	macSHA256 = iota
	macSHA1
	macSHA512
)

// macs checks signatures in hex with one key. A keyed hash costs two compressions to make and nothing to reset, so macs
// pools them for each algorithm.
type macs struct {
	key   []byte
	pools [len(algorithms)]sync.Pool
}

func newMACs(key []byte) *macs { return &macs{key: key} }

// begin starts the check of a body against a signature of the form "<algorithm>=<hex>".
func (m *macs) begin(signature string) (Check, error) {
	if signature == "" {
		return nil, refusedNoSignature
	}
	name, digits, found := strings.Cut(signature, "=")
	if !found || digits == "" {
		return nil, refusedMalformed
	}
	for i, a := range algorithms {
		if a.name == name {
			return m.beginHex(i, digits)
		}
	}
	return nil, refusedAlgorithm
}

// beginHex starts the check of a body against hex digits. algorithm is an index of algorithms.
func (m *macs) beginHex(algorithm int, digits string) (Check, error) {
	a := algorithms[algorithm]
	switch len(digits) {
	case 0:
		return nil, refusedNoSignature
	case hex.EncodedLen(a.size):
	default:
		return nil, refusedMalformed
	}
	c, ok := m.pools[algorithm].Get().(*macCheck)
	if !ok {
		c = &macCheck{Hash: hmac.New(a.make, m.key), size: a.size, pool: &m.pools[algorithm]}
	}
	copy(c.digits[:], digits)
	if _, err := hex.Decode(c.want[:], c.digits[:len(digits)]); err != nil {
		c.pool.Put(c)
		return nil, refusedMalformed
	}
	return c, nil
}

// macCheck hashes one body and compares. Finish returns it to its pool.
type macCheck struct {
	hash.Hash
	size   int
	pool   *sync.Pool
	digits [2 * sha512.Size]byte
	want   [sha512.Size]byte
	sum    [sha512.Size]byte
}

// Finish compares in constant time.
func (c *macCheck) Finish([]byte) (RawClaims, error) {
	got := c.Sum(c.sum[:0])
	equal := hmac.Equal(got, c.want[:c.size])
	c.Reset()
	c.pool.Put(c)
	if !equal {
		return nil, refusedMismatch
	}
	return nil, nil
}

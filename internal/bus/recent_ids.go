package bus

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// idParts is the number of parts of a recentIDs: one is filled, the others are full.
const idParts = 5

// recentIDs is a map of the IDs that were added last. It forgets the oldest part of them at a time: beyond most IDs, or beyond age unless
// age is zero. At least four fifths of most are kept, unless they are older than age.
//
// Neither keys nor values have pointers, so the collector does not visit them.
type recentIDs[V any] struct {
	most  int
	age   time.Duration
	parts []idPart[V] // the oldest first
}

type idPart[V any] struct {
	began time.Time
	ids   map[uint64]V
}

// add adds an ID at a time that is not before those of earlier calls.
func (s *recentIDs[V]) add(at time.Time, id uint64, v V) {
	if n := len(s.parts); n == 0 || len(s.parts[n-1].ids) >= s.most/idParts ||
		s.age > 0 && at.Sub(s.parts[n-1].began) >= s.age/(idParts-1) {
		s.parts = append(s.parts, idPart[V]{at, map[uint64]V{}})
		s.forget(at)
	}
	s.parts[len(s.parts)-1].ids[id] = v
}

// forget drops the oldest parts.
func (s *recentIDs[V]) forget(at time.Time) {
	for len(s.parts) > idParts || len(s.parts) > 1 && s.age > 0 && at.Sub(s.parts[1].began) >= s.age {
		s.parts[0] = idPart[V]{}
		s.parts = s.parts[1:]
	}
}

// find returns the value of an ID. It may be older than age.
func (s *recentIDs[V]) find(id uint64) (v V, found bool) {
	for i := len(s.parts) - 1; i >= 0 && !found; i-- {
		v, found = s.parts[i].ids[id]
	}
	return v, found
}

// idSalt makes the keys of IDs differ between processes, so that nobody can search for two IDs of one key.
var idSalt = rand.Text()

// digest returns the key of an ID. Eight bytes suffice: a new ID has the key of one of a million by chance less
// than once in ten trillion times.
func digest(id string) uint64 {
	var salted [192]byte
	sum := sha256.Sum256(append(append(salted[:0], idSalt...), id...))
	return binary.LittleEndian.Uint64(sum[:])
}

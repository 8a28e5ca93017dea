package fair

import "github.com/hashicorp/golang-lru/v2/simplelru"

// NewLRU returns a map of at most size entries, and at least one, that forgets the entry which was used longest ago.
func NewLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU[K, V](max(1, size), nil)
	if err != nil {
		panic(err) // its only error is a size that is not positive
	}
	return lru
}

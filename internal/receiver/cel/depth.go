package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// depth returns the work of reading a whole value: a unit for each value in it, and units for its texts. It stops above the limit of an
// evaluation. Its own work is about its result, so the caller charges it, or more.
func depth(v ref.Val) uint64 { return depthUpTo(v, maxWork) }

// depthUpTo is depth, and stops above most.
func depthUpTo(v any, most uint64) uint64 {
	c := counter{most: most}
	c.count(v)
	return c.n
}

// lesserDepth returns the depth of the one with less of it. Its own work is about its result as well: of the other value it reads no more
// than a few times that.
func lesserDepth(a, b ref.Val) uint64 {
	for most := uint64(64); ; most *= 4 {
		n := min(depthUpTo(a, most), depthUpTo(b, most))
		if n <= most || n > maxWork {
			return n
		}
	}
}

// copying is depth for a text of the value: each map makes one of its content, which is copied into that of the map around it.
func copying(v ref.Val) uint64 {
	c := counter{most: maxWork, copies: true}
	c.count(v)
	return c.n
}

// counter counts the work of reading values.
type counter struct {
	n, most uint64
	// copies says that each map copies its content; maps is the number of maps around the present value.
	copies bool
	maps   uint64
}

func (c *counter) full() bool { return c.n > c.most }

func (c *counter) add(work uint64) {
	if c.copies {
		work *= 1 + c.maps
	}
	c.n += work
}

// count adds the work of reading v. Documents are walked in the types of encoding/json, without conversion into values of the language.
// Other types are counted as the values that expressions get for them.
func (c *counter) count(v any) {
	c.add(1)
	if c.full() {
		return
	}
	switch v := v.(type) {
	case nil, bool, int64, float64:
	case string:
		c.add(uint64(len(v)) / bytesPerUnit)
	case map[string]any:
		c.maps++
		for key, value := range v {
			c.add(uint64(len(key)) / bytesPerUnit)
			if c.count(value); c.full() {
				return
			}
		}
		c.maps--
	case []any:
		for _, value := range v {
			if c.count(value); c.full() {
				return
			}
		}
	case ref.Val:
		c.countVal(v)
	default:
		c.countVal(types.DefaultTypeAdapter.NativeToValue(v))
	}
}

func (c *counter) countVal(v ref.Val) {
	switch v := v.(type) {
	case types.String, types.Bytes:
		c.add(text(v) / bytesPerUnit)
	case *types.Optional:
		if v.HasValue() {
			c.count(v.GetValue())
		}
	case traits.Lister:
		if native, ok := v.Value().([]any); ok {
			c.count(native)
			return
		}
		for i := range size(v) {
			if c.count(v.Get(types.Int(i))); c.full() {
				return
			}
		}
	case traits.Mapper:
		if native, ok := v.Value().(map[string]any); ok {
			c.count(native)
			return
		}
		c.maps++
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			c.count(key)
			if c.count(v.Get(key)); c.full() {
				return
			}
		}
		c.maps--
	}
}

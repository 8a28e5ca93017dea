package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// depth returns the work of reading a whole value: a unit for each value in it, and units for its texts. It stops above the limit of an
// evaluation.
func depth(v ref.Val) uint64 {
	var n uint64
	count(v, &n)
	return n
}

// count adds the work of reading v to n. Documents are walked in the types of encoding/json, without conversion into values of the
// language. Other types are counted as the values that expressions get for them.
func count(v any, n *uint64) {
	*n++
	if *n > maxWork {
		return
	}
	switch v := v.(type) {
	case nil, bool, int64, float64:
	case string:
		*n += uint64(len(v)) / bytesPerUnit
	case map[string]any:
		for key, value := range v {
			*n += uint64(len(key)) / bytesPerUnit
			if count(value, n); *n > maxWork {
				return
			}
		}
	case []any:
		for _, value := range v {
			if count(value, n); *n > maxWork {
				return
			}
		}
	case ref.Val:
		countVal(v, n)
	default:
		countVal(types.DefaultTypeAdapter.NativeToValue(v), n)
	}
}

func countVal(v ref.Val, n *uint64) {
	switch v := v.(type) {
	case types.String, types.Bytes:
		*n += text(v) / bytesPerUnit
	case *types.Optional:
		if v.HasValue() {
			count(v.GetValue(), n)
		}
	case traits.Lister:
		if native, ok := v.Value().([]any); ok {
			count(native, n)
			return
		}
		for i := range size(v) {
			if count(v.Get(types.Int(i)), n); *n > maxWork {
				return
			}
		}
	case traits.Mapper:
		if native, ok := v.Value().(map[string]any); ok {
			count(native, n)
			return
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			count(key, n)
			if count(v.Get(key), n); *n > maxWork {
				return
			}
		}
	}
}

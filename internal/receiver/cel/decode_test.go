package cel

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// The estimate is not below the memory of the most wasteful documents. Fails when any of its sizes is left out.
func TestTheSizeOfADecodedDocumentIsEstimatedFromAbove(t *testing.T) {
	const n = 20_000
	var distinct strings.Builder
	for i := range n {
		fmt.Fprintf(&distinct, `,"%d":"%d"`, i, i)
	}
	for name, document := range map[string]string{
		"numbers": "[0" + strings.Repeat(",7", n) + "]",
		"objects": "[0" + strings.Repeat(`,{"":7}`, n) + "]",
		"lists":   "[0" + strings.Repeat(",[7]", n) + "]",
		"empty":   "[0" + strings.Repeat(",{}", n) + "]",
		"texts":   "[0" + strings.Repeat(`,"\",[{"`, n) + "]",
		"fields":  "{" + distinct.String()[1:] + "}",
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		decoded, err := decodeDocument([]byte(document))
		runtime.GC()
		runtime.ReadMemStats(&after)
		took := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		if estimate := decodedSize([]byte(document)); err != nil || took > estimate {
			t.Errorf("%s: %d bytes, estimated %d: %v", name, took, estimate, err)
		}
		runtime.KeepAlive(decoded)
	}
	if got, want := decodedSize([]byte(`"{[,\"{[,"`)), int64(10); got != want {
		t.Errorf("a text alone: got %d, want %d", got, want)
	}
}

// Fails when a filter can't test for a field of a document that is null, as it can of one that is missing.
func TestANullDocumentIsAnEmptyObject(t *testing.T) {
	c, err := NewCondition("f", `req == {} && !has(req.ref)`, false)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFilters("team-a", []Rule{{Conditions: []*Condition{c}}}, nil, nil)
	for _, document := range []string{"", "null", " null\n", "{}"} {
		if selected, err := f.Select(t.Context(), nil, []byte(document)); err != nil || len(selected) != 1 {
			t.Errorf("%q: %d selected, %v", document, len(selected), err)
		}
	}
}

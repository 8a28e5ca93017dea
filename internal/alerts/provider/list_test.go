package provider

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"notifier/internal/alloctest"
)

// Fails when a short answer takes a hundred times its length in memory.
func TestT6AListOfNothingsIsNotKept(t *testing.T) {
	for name, answer := range map[string]string{
		"objects": "[" + strings.Repeat("{},", 1<<20) + "{}]", "nulls": "[" + strings.Repeat("null,", 1<<20) + "null]",
		"within": `{"value":[` + strings.Repeat("{},", 1<<20) + "{}]}",
	} {
		type element struct {
			A, B, C, D, E string
			F             List[string]
		}
		made := alloctest.Bytes(func() {
			var list List[element]
			var within struct{ Value List[element] }
			err := json.Unmarshal([]byte(answer), &list)
			if name == "within" {
				err = json.Unmarshal([]byte(answer), &within)
			}
			if err == nil {
				t.Errorf("%s: taken", name)
			}
		})
		if made > 24<<20 {
			t.Errorf("%s: %d bytes are made of %d", name, made, len(answer))
		}
	}
}

func TestAListIsReadAsItIs(t *testing.T) {
	for answer, want := range map[string][]string{`["a","b"]`: {"a", "b"}, ` [ ] `: nil, `null`: nil} {
		l := List[string]{"old"}
		if err := json.Unmarshal([]byte(answer), &l); err != nil || !slices.Equal(l, want) {
			t.Errorf("%s: got %v, %v", answer, l, err)
		}
	}
	for _, answer := range []string{`{}`, `"a"`, `[1]`, `[`, `["a",]`} {
		var l List[string]
		if json.Unmarshal([]byte(answer), &l) == nil {
			t.Errorf("%s: taken as %v", answer, l)
		}
	}
}

package cel_test

import (
	"strings"
	"testing"

	"notifier/internal/receiver/cel"
)

// Fails when a program compiles although its type is only known at run time.
func TestFiltersAreExactlyBool(t *testing.T) {
	for source, good := range map[string]bool{
		`req.action == "push"`:    true,
		`req.flag`:                false,
		`req.flag == true`:        true,
		`res.metadata.name`:       false,
		`has(req.x) && !(1 == 2)`: true,
		`other.x == 1`:            false,
	} {
		p, err := cel.Compile(source, cel.Bool, "req", "res")
		if (err == nil) != good {
			t.Errorf("%s: %v", source, err)
		}
		if err != nil {
			continue
		}
		got, err := p.Bool(t.Context(), map[string]any{"req": map[string]any{"action": "push", "flag": true, "x": nil}, "res": map[string]any(nil)})
		if err != nil || !got {
			t.Errorf("%s: %v, %v", source, got, err)
		}
		if !p.Reads("req") || p.Reads("res") {
			t.Errorf("%s: reads req %v, res %v", source, p.Reads("req"), p.Reads("res"))
		}
	}
}

// Fails when the library's panic at such a literal is passed on.
func TestAnOptionalElementOfAnyTypeIsAnErrorThatSaysSo(t *testing.T) {
	for source, want := range map[string]string{
		`[?req.ref] == []`:                            `needs an optional value, such as [?req.?ref]`,
		`{?"a": req.ref} == {}`:                       `needs an optional value, such as [?req.?ref]`,
		`[?"a"] == []`:                                `expected type 'optional_type(string)'`,
		`google.protobuf.Struct{fields: req} == {}`:   `use a map`,
		`{"a": google.protobuf.Value{}} == {"a": {}}`: `use a map`,
	} {
		if _, err := cel.Compile(source, cel.Bool, "req"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "@") {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
}

// Fails when a program that may give something else than a text compiles as one.
func TestNamesAreExactlyString(t *testing.T) {
	for source, want := range map[string]string{
		`"a/" + event.name`:                   "a/b",
		`string(event.name)`:                  "b",
		`event.name`:                          "",
		`event.name == "b"`:                   "",
		`event.n > 1 ? "x" : event.name + ""`: "x",
	} {
		p, err := cel.Compile(source, cel.String, "event")
		if (err == nil) != (want != "") {
			t.Errorf("%s: %v", source, err)
		}
		if err != nil {
			continue
		}
		got, err := p.String(t.Context(), map[string]any{"event": map[string]any{"name": "b", "n": 2.0}})
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", source, got, err, want)
		}
	}
	p, err := cel.Compile(`"a" + event.absent`, cel.String, "event")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.String(t.Context(), map[string]any{"event": map[string]any{}}); err != cel.ErrNoKey || got != "" { //nolint:errorlint // as it is
		t.Errorf("got %q, %v", got, err)
	}
}

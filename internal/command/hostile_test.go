package command

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"notifier/internal/event/view"
)

// controlling are characters that control a terminal.
const controlling = "\x1b]0;owned\x07 \u009b31m \u202e \u200b \U000e0041"

// controlled reports whether a text controls a terminal.
func controlled(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r < ' ' || r >= 0x7f && r < 0xa0 || strings.ContainsRune("\u202e\u200b\U000e0041", r)
	})
}

// Fails when an error shows a text of the API's answer, or a namespace in it, with characters that control a terminal.
func TestHostileErrorsControlNoTerminal(t *testing.T) {
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces": view.Namespaces{Items: []string{"team" + controlling}},
		"GET /v1/namespaces/team-a/deliveries?limit=50": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "no" + controlling + "\nnotifier: all is well"})
		}),
	})
	for _, line := range [][]string{{"deliveries", "list"}, {"deliveries", "list", "-A"}, {"events", "list", "-A", "--watch"}} {
		if r := call(t, api, line...); r.err == nil || controlled(r.err.Error()) || strings.Contains(r.err.Error(), "\n") || controlled(r.notes) {
			t.Errorf("%v: error %q, notes %q", line, r.err, r.notes)
		}
	}
}

// Fails when the output for programs controls the terminal, or when escaping changes its meaning for programs.
func TestTheOutputForProgramsControlsNoTerminal(t *testing.T) {
	hostile := dead
	hostile.Failure = controlling
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{hostile}},
	})
	read := map[string]func([]byte, any) error{
		"json": json.Unmarshal, "yaml": func(text []byte, into any) error { return yaml.Unmarshal(text, into) },
	}
	for format, read := range read {
		r := call(t, api, "deliveries", "list", "-o", format)
		r.wants(t)
		var page view.Page[view.Delivery]
		if err := read([]byte(r.out), &page); err != nil || len(page.Items) != 1 || page.Items[0].Failure != controlling {
			t.Errorf("%s: error %v, read as %+v", format, err, page)
		}
		if controlled(r.out) {
			t.Errorf("%s: %q", format, r.out)
		}
	}
}

package kube_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/reconcile/kube"
)

// Fails when versions are compared as text, or when an invalid version counts as an early one.
func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"7", "7", false},
		{"", "7", false},
		{"7", "", false},
		{"", "", false},
		{"x", "7", false},
		{"7", "x", false},
	} {
		if got := kube.Older(c.a, c.b); got != c.want {
			t.Errorf("%q before %q: %v", c.a, c.b, got)
		}
	}
}

// Fails when a text that would change the path of a request is accepted as a group or a version.
func TestParseAPIVersion(t *testing.T) {
	for text, want := range map[string]schema.GroupVersion{
		"v1":                          {Version: "v1"},
		"source.toolkit.fluxcd.io/v1": {Group: "source.toolkit.fluxcd.io", Version: "v1"},
	} {
		if got, ok := kube.ParseAPIVersion(text); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "/", "a/b/c", "../v1", "a.example/..", "A.example/v1", "a.example/v1?x", "a.example/", "1", "v1 "} {
		if got, ok := kube.ParseAPIVersion(text); ok || got != (schema.GroupVersion{}) {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

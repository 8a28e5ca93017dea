package kube_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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

// Fails when Sleep waits on after the end of the context, or mistakes that for the end of the time.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !kube.Sleep(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("slept %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if kube.Sleep(ctx, time.Minute) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("slept %v", time.Since(began))
		}
	})
}

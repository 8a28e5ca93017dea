package registry_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
)

func TestEveryListedTypeIsBuilt(t *testing.T) {
	want := []string{"generic", "generic-hmac", "msteams", "slack"}
	if diff := cmp.Diff(want, registry.Types()); diff != "" {
		t.Error(diff)
	}
	for _, typ := range registry.Types() {
		s, err := registry.New(provider.Config{Type: typ, Address: "https://far.test", Token: "t"})
		if err != nil || s == nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestAnotherTypeIsNamedWithThoseSupported(t *testing.T) {
	_, err := registry.New(provider.Config{Type: "pagerduty"})
	unsupported, ok := errors.AsType[*registry.UnsupportedTypeError](err)
	if !ok || unsupported.Type != "pagerduty" {
		t.Fatalf("got %v, want an UnsupportedTypeError", err)
	}
	if diff := cmp.Diff(registry.Types(), unsupported.Supported); diff != "" {
		t.Error(diff)
	}
}

// Fails when builder returns a constructor's typed nil.
func TestAFaultyConfigBuildsNothing(t *testing.T) {
	for _, typ := range registry.Types() {
		if s, err := registry.New(provider.Config{Type: typ}); err == nil || s != nil {
			t.Errorf("%s: got %v, %v; want nothing and an error", typ, s, err)
		}
	}
}

func TestOnlySlackIsLimitedByDefault(t *testing.T) {
	for _, typ := range append(registry.Types(), "unknown") {
		limit, burst := registry.DefaultLimit(typ)
		if typ == "slack" {
			if limit != 1 || burst != 3 {
				t.Errorf("slack: %v a second in bursts of %d", limit, burst)
			}
		} else if limit != rate.Inf {
			t.Errorf("%s: %v a second", typ, limit)
		}
	}
}

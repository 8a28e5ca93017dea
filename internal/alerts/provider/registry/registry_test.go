package registry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
)

// configs are what types need beyond an address and a token.
var configs = map[string]func(*provider.Config){
	"azureeventhub": func(c *provider.Config) { c.Address, c.Channel = "hub", "namespace" },
	"email": func(c *provider.Config) {
		c.Address, c.Channel, c.Username = "smtps://far.test", "a@far.test", "b@far.test"
	},
	"googlepubsub": func(c *provider.Config) {
		none := func(context.Context, string) (string, error) { return "", nil }
		c.Address, c.Channel, c.Token, c.ServiceAccount, c.Identity = "project", "topic", "", "events", none
		c.Annotations = func(context.Context) (map[string]string, error) { return nil, nil }
	},
	"nats": func(c *provider.Config) { c.Address, c.Channel = "nats://far.test", "flux" },
}

func TestEveryListedTypeIsBuilt(t *testing.T) {
	want := []string{"azureeventhub", "cloudevents", "email", "generic", "generic-hmac", "googlepubsub", "msteams", "nats", "slack"}
	if diff := cmp.Diff(want, registry.Types()); diff != "" {
		t.Error(diff)
	}
	for _, typ := range registry.Types() {
		cfg := provider.Config{Type: typ, Address: "https://far.test", Token: "t"}
		if change, ok := configs[typ]; ok {
			change(&cfg)
		}
		s, err := registry.New(cfg)
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

// Fails when the limit goes by the type, which Mattermost and others have as well, or by a part of the host's name.
func TestOnlyAddressesOfSlackAreLimitedByDefault(t *testing.T) {
	for address, limited := range map[string]bool{
		"https://hooks.slack.com/services/T0/B0/x": true, "https://HOOKS.SLACK.COM./services/x": true, "https://hooks.slack-gov.com/services/x": true,
		"https://slack.com/api/chat.postMessage": true,
		"https://mattermost.example.com/hooks/x": false, "https://notslack.com/x": false, "https://slack.com.example.com/x": false,
	} {
		s, err := registry.New(provider.Config{Type: "slack", Address: address, Token: "t", Channel: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if got := registry.DefaultLimits().Of(s); (got == provider.Limit{Rate: 1, Burst: 3}) != limited || !limited && got != (provider.Limit{}) {
			t.Errorf("%s: %+v", address, got)
		}
	}
	s, err := registry.New(provider.Config{Type: "generic", Address: "https://hooks.slack.com/x"})
	if err != nil || registry.DefaultLimits().Of(s) != (provider.Limit{}) {
		t.Errorf("generic: %v", err)
	}
}

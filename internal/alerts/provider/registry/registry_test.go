package registry_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// types are all types that the API lists.
var types = []string{
	"alertmanager", "azuredevops", "azureeventhub", "bitbucket", "bitbucketserver", "cloudevents", "datadog", "discord", "email",
	"generic", "generic-hmac", "gitea", "giteapullrequestcomment", "github", "githubdispatch", "githubpullrequestcomment", "gitlab",
	"gitlabmergerequestcomment", "googlechat", "googlepubsub", "grafana", "incident.io", "lark", "mastodon", "matrix", "mattermost", "msteams",
	"nats", "opsgenie", "otel", "pagerduty", "rocket", "sentry", "slack", "telegram", "webex", "zoom", "zulip",
}

// config returns a Config that the type accepts.
func config(typ string) provider.Config {
	cfg := provider.Config{Type: typ, Address: "https://far.test/owner/name", Token: "t"}
	switch typ {
	case "azuredevops":
		cfg.Address = "https://far.test/organization/project/_git/name"
	case "azureeventhub":
		cfg.Address, cfg.Channel = "hub", "namespace"
	case "bitbucketserver":
		cfg.Address = "https://far.test/scm/project/name"
	case "email":
		cfg.Address, cfg.Channel, cfg.Username = "smtps://far.test", "a@far.test", "b@far.test"
	case "googlepubsub":
		cfg.Address, cfg.Channel, cfg.Token, cfg.ServiceAccount = "project", "topic", "", "events"
		cfg.Identity = func(context.Context, string) (string, error) { return "", nil }
		cfg.Annotations = func(context.Context) (map[string]string, error) { return nil, nil }
	case "mattermost":
		cfg.Channel = "4yrbyxjpwpgqtb7tkz4ixzqauc"
	case "matrix":
		cfg.Channel = "!room:far.test"
	case "nats":
		cfg.Address, cfg.Channel = "nats://far.test", "flux"
	case "sentry":
		cfg.Address = "https://key@far.test/1"
	case "telegram":
		cfg.Token, cfg.Channel = "1:t", "-100:7"
	case "zulip":
		cfg.Channel, cfg.Username, cfg.Password = "channel/topic", "bot@far.test", "p"
	}
	return cfg
}

func TestEveryListedTypeIsBuilt(t *testing.T) {
	if diff := cmp.Diff(types, registry.Types()); diff != "" {
		t.Error(diff)
	}
	for _, typ := range registry.Types() {
		s, err := registry.New(config(typ))
		if err != nil || s == nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// Fails when a type of a status is sent the update that a Kustomization asks for at every interval although the host has the status. The
// limits of GitHub and Bitbucket would be used up by these: what waits behind them came ever later.
func TestTypesOfAStatusAreSpared(t *testing.T) {
	for _, typ := range []string{"azuredevops", "bitbucket", "bitbucketserver", "gitea", "github", "gitlab"} {
		s, err := registry.New(config(typ))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.(provider.Sparing); !ok {
			t.Errorf("%s is not", typ)
		}
	}
}

// Fails when half a username and password is silent, so that a type that also sends without a login sends without, or when a name that the
// spec gives to be shown is refused.
func TestHalfALoginIsRefused(t *testing.T) {
	for _, typ := range []string{"alertmanager", "grafana", "otel"} {
		for name, c := range map[string]struct {
			change  func(*provider.Config)
			refused bool
		}{
			"a password":            {func(c *provider.Config) { c.Password = "p" }, true},
			"the Secret's username": {func(c *provider.Config) { c.Username, c.SecretUsername = "u", true }, true},
			"the spec's username":   {func(c *provider.Config) { c.Username = "u" }, false},
			"no login":              {func(*provider.Config) {}, false},
		} {
			cfg := config(typ)
			cfg.Token = ""
			c.change(&cfg)
			s, err := registry.New(cfg)
			if s != nil {
				_ = s.Close()
			}
			if refused := err != nil && strings.Contains(err.Error(), "username and password are needed"); refused != c.refused {
				t.Errorf("%s with %s: %v", typ, name, err)
			}
		}
	}
}

func TestAnotherTypeIsNamedWithThoseSupported(t *testing.T) {
	_, err := registry.New(provider.Config{Type: "carrier-pigeon"})
	unsupported, ok := errors.AsType[*registry.UnsupportedTypeError](err)
	if !ok || unsupported.Type != "carrier-pigeon" {
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

// Fails when the limit depends on the type, which Mattermost and others have too, or on a part of the host's name.
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

// elsewhere are the types without a token, and those that do not send it unchanged in a header or a URL.
var elsewhere = []string{
	"discord", "email", "generic", "generic-hmac", "googlechat", "googlepubsub", "msteams", "nats", "pagerduty",
	"rocket", "zulip",
}

// Fails when a host whose repositories have no hashes of SHA-256 is sent one, which it refuses for ever, or when another is not.
func TestOnlyHostsWithHashesOfSHA256AreSentThem(t *testing.T) {
	for typ, want := range map[string]bool{
		"azuredevops": false, "bitbucket": false, "bitbucketserver": false, "github": false, "gitea": true, "gitlab": true,
	} {
		takes := registry.Takes(typ)
		for digits, want := range map[int]bool{40: true, 64: want} {
			n := provider.Notification{Event: event.Event{
				Severity: event.SeverityError, Metadata: map[string]string{"commit": strings.Repeat("c", digits)},
			}}
			if got := takes(n); got != want {
				t.Errorf("%s with a hash of %d digits: taken %t", typ, digits, got)
			}
		}
	}
}

// Fails when a type on which a failure stays until a recovery is not told of as such, or another is: an incident, a commit's status that
// blocks a merge, or a comment.
func TestTheTypesOnWhichAFailureStaysResolve(t *testing.T) {
	got := slices.DeleteFunc(registry.Types(), func(typ string) bool { return !registry.Resolves(typ) })
	want := []string{
		"alertmanager", "azuredevops", "bitbucket", "bitbucketserver", "datadog", "gitea", "giteapullrequestcomment", "github",
		"githubpullrequestcomment", "gitlab", "gitlabmergerequestcomment", "grafana", "incident.io", "opsgenie", "pagerduty", "sentry",
	}
	if !slices.Equal(got, want) || registry.Resolves("carrier-pigeon") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Fails when the update of a status that a Kustomization asks for at every interval takes a token of the limit of a type that people read.
func TestTypesThatAreSentUpdatesOfAStatusAreSparing(t *testing.T) {
	update := provider.Notification{Event: event.Event{
		Severity: event.SeverityInfo, Reason: "ReconciliationSucceeded",
		Metadata: map[string]string{"commit_status": "update", "commit": strings.Repeat("c", 40), "change_request": "7"},
	}}
	for _, typ := range registry.Types() {
		passesOn := slices.Contains([]string{"generic", "generic-hmac", "cloudevents"}, typ)
		if passesOn || !registry.Takes(typ)(update) {
			continue
		}
		s, err := registry.New(config(typ))
		if err != nil {
			t.Fatal(typ, err)
		}
		if _, sparing := s.(provider.Sparing); !sparing {
			t.Errorf("%s is sent each of them", typ)
		}
	}
}

// Fails when a type checks a token in its own way, or only the first message reveals a faulty one.
func TestOneMistakeInATokenHasOneText(t *testing.T) {
	for _, typ := range registry.Types() {
		cfg := config(typ)
		cfg.Token = "s3cret\n"
		_, err := registry.New(cfg)
		told := err != nil && err.Error() == provider.CheckKey("token", cfg.Token).Error()
		if told == slices.Contains(elsewhere, typ) {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// Fails when docs/providers.md lacks a type, its page, or a key of the Secret that it reads.
func TestThePageListsEveryType(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	row := regexp.MustCompile("(?m)^\\| \\[`([^`]+)`\\]\\((providers/[a-z]+\\.md)\\) \\|[^|]*\\|([^|]*)\\|")
	for _, row := range row.FindAllStringSubmatch(string(page), -1) {
		typ, file, keys := row[1], row[2], row[3]
		listed = append(listed, typ)
		if _, err := os.Stat("../../../../docs/" + file); err != nil {
			t.Errorf("%s has no page: %v", typ, err)
		}
		for _, key := range registry.Keys(typ) {
			old := strings.HasSuffix(key, "File") // the page names these once
			if !old && !strings.Contains(keys, "`"+key+"`") && !strings.Contains(keys, "as `git") {
				t.Errorf("the row of %s does not name the key %s", typ, key)
			}
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(types, listed); diff != "" {
		t.Error(diff)
	}
}

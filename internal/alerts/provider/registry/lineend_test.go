package registry_test

import (
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
)

// keepsEnd are the types to which a line end behind the token does no harm.
var keepsEnd = map[string]string{
	"discord": "it reads no token", "email": "it reads no token", "generic": "it reads no token", "googlechat": "it reads no token",
	"msteams": "it reads no token", "rocket": "it reads no token", "zulip": "it reads no token",
	"generic-hmac": "as with Flux, it is a part of the key of both sides", "pagerduty": "it drops the spaces around its key",
}

// Fails when a type takes a credential with a line end behind it, as echo writes it into a Secret: the destination refuses the login, and the
// Provider says that the password is wrong, or the clock, and not the line end.
func TestALineEndBehindACredentialIsRefused(t *testing.T) {
	for _, typ := range types {
		for name, c := range map[string]struct {
			change func(*provider.Config)
			named  string
			takes  bool
		}{
			"token":             {func(c *provider.Config) { c.Token += "\n" }, "token", keepsEnd[typ] != ""},
			"proxy's password":  {func(c *provider.Config) { c.Proxy = proxyWith("u", "s3cret\n") }, "password", false},
			"proxy's user name": {func(c *provider.Config) { c.Proxy = proxyWith("u\n", "s3cret") }, "user", false},
		} {
			cfg := config(typ)
			if c.change(&cfg); cfg.Token == "\n" {
				continue // the type logs in without a token
			}
			checkRefused(t, typ+", "+name, cfg, c.named, c.takes)
		}
	}
	for _, typ := range []string{"alertmanager", "bitbucket", "bitbucketserver", "email", "grafana", "nats", "otel", "zulip"} {
		for named, pair := range map[string][2]string{"password": {"b@far.test", "s3cret\n"}, "user": {"b@far.test\n", "s3cret"}} {
			cfg := config(typ)
			cfg.Token, cfg.Username, cfg.SecretUsername, cfg.Password = "", pair[0], true, pair[1]
			checkRefused(t, typ+", a line end behind the "+named, cfg, named, false)
		}
	}
	cfg := config("github")
	cfg.Token, cfg.Values = "", map[string]string{"githubAppID": "1", "githubAppInstallationOwner": "s3cret\n", "githubAppPrivateKey": "k"}
	checkRefused(t, "github, the owner", cfg, "githubAppInstallationOwner", false)
}

func proxyWith(user, password string) provider.Proxy {
	return provider.Proxy{Address: "http://proxy.test", Username: user, Password: password}
}

// checkRefused fails the test unless a Config is refused, with the name of what is wrong and without its value, or taken.
func checkRefused(t *testing.T, name string, cfg provider.Config, named string, takes bool) {
	t.Helper()
	s, err := registry.New(cfg)
	if s != nil {
		_ = s.Close()
	}
	switch {
	case takes:
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	case err == nil:
		t.Errorf("%s: taken", name)
	case !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "line end"):
		t.Errorf("%s: %v", name, err)
	}
}

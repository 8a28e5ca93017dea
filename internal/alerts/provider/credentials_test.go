package provider

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Fails when a value that no header may have is accepted, a colon moves from a user's name into the password, or an error quotes a
// credential.
func TestFaultyCredentialsAreRefusedWithoutQuotingThem(t *testing.T) {
	refused := func(name string, h http.Header, err error, says string) {
		t.Helper()
		if h != nil || err == nil {
			t.Fatalf("%s: got %v, %v", name, h, err)
		}
		if text := err.Error(); !strings.Contains(text, says) || !strings.Contains(text, "write") || strings.Contains(text, "s3c") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, token := range []string{"", "s3cret\n", "s3 cret", "s3cr\x00et", "s3crét", "s3cret\r\nX: 1"} {
		h, err := Credential("DD-API-KEY", "", "apiKey", token)
		refused(token, h, err, "the Secret's key apiKey ")
		if token != "" {
			h, err = Config{Token: token, Username: "u", Password: "p"}.Login()
			refused(token, h, err, "the Secret's key token ")
		}
	}
	for _, pair := range [][2]string{
		{"", ""}, {"", "s3cret"}, {"s3cret", ""}, {"s3c:ret", "s3cret"}, {"user", "s3cret\n"}, {"us\x7fer", "s3cret"},
	} {
		h, err := Basic(pair[0], pair[1])
		refused(pair[0], h, err, "user")
	}
	for name, cfg := range map[string]Config{"half a pair": {Username: "s3cret"}, "the other half": {Password: "s3cret"}, "nothing": {}} {
		h, err := cfg.RequireLogin()
		refused(name, h, err, "key token")
	}
}

func TestCredentialsAreSentAsTheyAre(t *testing.T) {
	if h, err := Credential("DD-API-KEY", "key ", "token", "abc"); err != nil || h.Get("Dd-Api-Key") != "key abc" {
		t.Errorf("got %v, %v", h, err)
	}
	h, err := Basic("user@example.com", "pass: wörd")
	if diff := cmp.Diff(http.Header{"Authorization": {"Basic dXNlckBleGFtcGxlLmNvbTpwYXNzOiB3w7ZyZA=="}}, h); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for name, c := range map[string]struct {
		cfg                       Config
		bearer, login, key, value string
	}{
		"a token before a pair": {Config{Username: "u", Password: "p", Token: "t"}, "Bearer t", "Bearer t", "token", "t"},
		"a pair":                {Config{Username: "u", Password: "p"}, "", "Basic dTpw", "password", "p"},
		"a name to show":        {Config{Username: "u", Token: "t"}, "Bearer t", "Bearer t", "token", "t"},
		"half a pair":           {Config{Password: "p"}, "", "", "password", "p"},
		"nothing":               {Config{}, "", "", "token", ""},
	} {
		bearer, bearerErr := c.cfg.Bearer()
		login, loginErr := c.cfg.Login()
		key, value := c.cfg.TokenOrPassword()
		got := []string{bearer.Get("Authorization"), login.Get("Authorization"), key, value}
		if diff := cmp.Diff([]string{c.bearer, c.login, c.key, c.value}, got); diff != "" || bearerErr != nil || loginErr != nil {
			t.Errorf("%s: %v, %v %s", name, bearerErr, loginErr, diff)
		}
	}
}

package provider

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Fails when a value that no header may have is accepted, a colon moves from a user's name into the password, or an error quotes a
// credential. Fails also when half a pair is silent, since the destination then gets no login.
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
			h, err = Config{Token: token, Username: "u", Password: "p"}.login()
			refused(token, h, err, "the Secret's key token ")
		}
	}
	for _, pair := range [][2]string{
		{"", ""}, {"", "s3cret"}, {"s3cret", ""}, {"s3c:ret", "s3cret"}, {"user", "s3cret\n"}, {"us\x7fer", "s3cret"},
	} {
		h, err := Basic(pair[0], pair[1])
		refused(pair[0], h, err, "user")
	}
	for name, cfg := range map[string]Config{"half a pair": {Username: "s3cret"}, "nothing": {}} {
		h, err := cfg.RequireLogin()
		refused(name, h, err, "key token")
	}
	const half = "the Secret's keys username and password are needed, and one is missing"
	for name, login := range map[string]func(Config) (http.Header, error){
		"for some": Config.login, "for all": Config.RequireLogin, "if there is one": Config.OptionalLogin,
	} {
		h, err := login(Config{Password: "s3cret"})
		refused("a password without a username, login "+name, h, err, half)
	}
	h, err := Config{Username: "s3cret", SecretUsername: true}.OptionalLogin()
	refused("the Secret's username without a password", h, err, half)
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
		"a token beside half":   {Config{Password: "p", Token: "t"}, "Bearer t", "Bearer t", "token", "t"},
		"a Secret's name":       {Config{Username: "u", SecretUsername: true, Token: "t"}, "Bearer t", "Bearer t", "token", "t"},
		"a Secret's pair":       {Config{Username: "u", SecretUsername: true, Password: "p"}, "", "Basic dTpw", "password", "p"},
		"only a name to show":   {Config{Username: "u"}, "", "", "token", ""},
		"a token before a pair": {Config{Username: "u", Password: "p", Token: "t"}, "Bearer t", "Bearer t", "token", "t"},
		"a pair":                {Config{Username: "u", Password: "p"}, "", "Basic dTpw", "password", "p"},
		"a name to show":        {Config{Username: "u", Token: "t"}, "Bearer t", "Bearer t", "token", "t"},
		"nothing":               {Config{}, "", "", "token", ""},
	} {
		bearer, bearerErr := c.cfg.Bearer()
		login, loginErr := c.cfg.login()
		optional, optionalErr := c.cfg.OptionalLogin()
		if diff := cmp.Diff(login, optional); diff != "" || optionalErr != nil {
			t.Errorf("%s, optional: %v %s", name, optionalErr, diff)
		}
		key, value := c.cfg.TokenOrPassword()
		got := []string{bearer.Get("Authorization"), login.Get("Authorization"), key, value}
		if diff := cmp.Diff([]string{c.bearer, c.login, c.key, c.value}, got); diff != "" || bearerErr != nil || loginErr != nil {
			t.Errorf("%s: %v, %v %s", name, bearerErr, loginErr, diff)
		}
	}
}

// Fails when a Provider's owner is shown the faults of the login and of the address one after the other, an edit of the spec between them.
func TestTheFaultsOfTheLoginAndOfTheAddressAreListedTogether(t *testing.T) {
	_, err := NewClient(Config{Token: "s3cret\n"}, ClientOptions{Login: TokenIn("Authorization", "Bearer ")})
	if !errors.Is(err, ErrNoAddress) || !strings.Contains(err.Error(), "key token holds a space") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

package provider

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// CheckKey checks a token from the given key of the Secret. The errors of this file name the key and the remedy and quote no value.
func CheckKey(key, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("the Secret's key %s is missing; write it into the Secret that spec.secretRef names", key)
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("the Secret's key %s holds a space, a line end or another character that no token has; write it without", key)
	}
	return nil
}

// CheckLine checks a credential that may have any characters but line ends and other control characters. Its name is given for the error.
func CheckLine(name, value string) error {
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New(name + " has a line end or another control character; write it without")
	}
	return nil
}

// CheckPair is CheckLine for a user's name and a password.
func CheckPair(user, password string) error {
	return CheckLine("the user's name or the password", user+password)
}

// Credential returns the header that carries a token of the Secret after a prefix, such as "Bearer ".
func Credential(header, prefix, key, value string) (http.Header, error) {
	if err := CheckKey(key, value); err != nil {
		return nil, err
	}
	return http.Header{http.CanonicalHeaderKey(header): {prefix + value}}, nil
}

// TokenIn returns a ClientOptions.Login that sends the Secret's token in a header after a prefix, such as "Bearer ".
func TokenIn(header, prefix string) func(Config) (http.Header, error) {
	return func(c Config) (http.Header, error) { return Credential(header, prefix, "token", c.Token) }
}

// TokenOrPasswordIn is TokenIn for types that take the password in place of a token.
func TokenOrPasswordIn(header, prefix string) func(Config) (http.Header, error) {
	return func(c Config) (http.Header, error) {
		key, value := c.TokenOrPassword()
		return Credential(header, prefix, key, value)
	}
}

// Basic returns the header that logs in with a user's name and a password (RFC 7617).
func Basic(user, password string) (http.Header, error) {
	switch {
	case user == "" || password == "":
		return nil, errors.New("the Secret's keys username and password are needed, and one is missing; write both into it")
	case strings.Contains(user, ":"):
		return nil, errors.New("the user's name has a colon, with which none can log in; write it without")
	}
	if err := CheckPair(user, password); err != nil {
		return nil, err
	}
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}}, nil
}

// Bearer returns the header that sends the token, nil if there is no token.
func (c Config) Bearer() (http.Header, error) {
	if c.Token == "" {
		return nil, nil
	}
	return Credential("Authorization", "Bearer ", "token", c.Token)
}

// login returns the header that sends the token. Without a token the header logs in with username and password. It is nil if there is
// neither a token nor a password: a username alone may be a name to show.
func (c Config) login() (http.Header, error) {
	if c.Token == "" && c.Password != "" {
		return Basic(c.Username, c.Password)
	}
	return c.Bearer()
}

// OptionalLogin is login for types that also send without credentials and show no username. It returns an error if the Secret has a
// username alone, with which they would send without.
func (c Config) OptionalLogin() (http.Header, error) {
	if c.Token == "" && c.SecretUsername {
		return Basic(c.Username, c.Password)
	}
	return c.login()
}

// RequireLogin is login for types that need credentials: it returns an error if there are none.
func (c Config) RequireLogin() (http.Header, error) {
	h, err := c.login()
	if h == nil && err == nil {
		err = errors.New("the Secret has no credentials; write the key token into it, or the keys username and password")
	}
	return h, err
}

// TokenOrPassword returns the token or, without one, the password, and the Secret's key of the value returned.
func (c Config) TokenOrPassword() (key, value string) {
	if c.Token == "" && c.Password != "" {
		return "password", c.Password
	}
	return "token", c.Token
}

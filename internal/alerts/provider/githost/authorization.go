package githost

import (
	"encoding/base64"
	"errors"
	"strings"
)

// Authorization returns the value of the header Authorization that sends a token under a scheme, such as "Bearer". Its errors name the
// Secret's key and quote nothing.
func Authorization(scheme, token string) (string, error) {
	switch {
	case token == "":
		return "", errors.New("there is no token: the Secret needs the key token")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("the Secret's key token has a space, a line end or another character that no token has")
	}
	return scheme + " " + token, nil
}

// Basic returns the value of the header Authorization that logs in with a user's name and a password (RFC 7617). Its errors quote nothing.
func Basic(user, password string) (string, error) {
	switch {
	case user == "" || password == "":
		return "", errors.New("a user's name and a password are both needed, and the Secret has one of them")
	case strings.Contains(user, ":"):
		return "", errors.New("the user's name has a colon, with which none can log in")
	case strings.ContainsFunc(user+password, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", errors.New("the user's name or the password has a line end or another control character")
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), nil
}

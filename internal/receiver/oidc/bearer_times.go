package oidc

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxLife bounds the remaining time of a token. Kubernetes gives a service account's token a year; a longer one was meant to last for
	// ever, or is in milliseconds.
	maxLife = 400 * 24 * time.Hour
	// maxSkew bounds the time by which an issuer's clock may be ahead of ours.
	maxSkew = 5 * time.Minute
	// maxExact is the greatest number up to which a float64 has every integer.
	maxExact = 1 << 53
)

// ownClaims are the claims that the library's checks of a token read.
var ownClaims = []string{"iss", "aud", "exp", "nbf", "iat"}

// checkTimes refuses a signed token whose times are not numbers of seconds, in their order, with a whole end within maxLife. The library
// accepts texts, and any end outside its range. It also reads each claim from a name in any case, so a claim of the issuer's users could
// replace it.
func checkTimes(payload []byte, now time.Time) error {
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil {
		return RefusedBearer
	}
	for name := range claims {
		if slices.ContainsFunc(ownClaims, func(own string) bool { return name != own && strings.EqualFold(name, own) }) {
			return RefusedBearer
		}
	}
	var at struct{ exp, nbf, iat int64 }
	for name, seconds := range map[string]*int64{"exp": &at.exp, "nbf": &at.nbf, "iat": &at.iat} {
		if value, there := claims[name]; there {
			read, whole, ok := readSeconds(string(value))
			if !ok || !whole && name == "exp" {
				return RefusedBearer
			}
			*seconds = read
		}
	}
	switch {
	case at.exp <= now.Unix():
		return RefusedExpired
	case at.exp > now.Add(maxLife).Unix(), at.exp <= at.iat, at.exp <= at.nbf, at.iat > now.Add(maxSkew).Unix():
		return RefusedClaims
	}
	return nil
}

// readSeconds parses a JSON number, in any notation, and reports whether it is whole. A fraction is rounded up, so that no token is valid
// earlier than it says.
func readSeconds(value string) (seconds int64, whole, ok bool) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n, true, true
	}
	f, err := strconv.ParseFloat(value, 64) // value is a JSON value, so "NaN" and "0x1p4" are in quotes and fail
	if err != nil || math.Abs(f) > maxExact {
		return 0, false, false
	}
	return int64(math.Ceil(f)), f == math.Trunc(f), true
}

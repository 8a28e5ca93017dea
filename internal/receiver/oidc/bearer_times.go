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

// ownClaims are the claims that the checks of a token read.
var ownClaims = []string{"iss", "aud", "exp", "nbf", "iat", "email", "email_verified"}

// checkTimes refuses a signed token whose times are not whole numbers of seconds, in their order, with an end within maxLife. The library
// accepts texts and fractions, and any end outside its range. It also reads each claim from a name in any case, so a claim of the issuer's
// users could replace it.
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
			var ok bool
			if *seconds, ok = wholeSeconds(string(value)); !ok {
				return RefusedBearer
			}
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

// wholeSeconds parses a JSON number that is an integer, in any notation.
func wholeSeconds(value string) (int64, bool) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(value, 64) // value is a JSON value, so "NaN" and "0x1p4" are in quotes and fail
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxExact {
		return 0, false
	}
	return int64(f), true
}

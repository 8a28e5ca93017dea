package verify

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha512"
	"strings"
	"testing"
)

// Fails without the comparison in Finish, with a comparison of a prefix, with an algorithm that is not in the table, or
// with SHA-256's digest length for all.
func TestGenericHMACRequiresAValidSignature(t *testing.T) {
	good := sign(token, attemptBody)
	signed := func(signature string, want error) attempt { return attempt{header("X-Signature", signature), want} }
	try(t, "generic-hmac", map[string]attempt{
		"sha256":            signed(good, nil),
		"sha1":              signed(signWith("sha1", sha1.New, token, attemptBody), nil),
		"sha512":            signed(signWith("sha512", sha512.New, token, attemptBody), nil),
		"upper-case digits": signed("sha256="+strings.ToUpper(good[7:]), nil),
		"no signature":      {header(), refusedNoSignature},
		"another token's":   signed(sign("other", attemptBody), refusedMismatch),
		"the empty token's": signed(sign("", attemptBody), refusedMismatch),
		"another body's":    signed(sign(token, attemptBody+" "), refusedMismatch),
		"md5":               signed(signWith("md5", md5.New, token, attemptBody), refusedAlgorithm),
		"a bare digest":     signed(good[7:], refusedMalformed),
		"a prefix":          signed(good[:len(good)-2], refusedMalformed),
		"more than it":      signed(good+"00", refusedMalformed),
		"an empty digest":   signed("sha256=", refusedMalformed),
		"what is not hex":   signed("sha256="+strings.Repeat("z", 64), refusedMalformed),
		"sha1 as sha256":    signed("sha256="+signWith("sha1", sha1.New, token, attemptBody)[5:], refusedMalformed),
	})
}

// hubSignatures are the signatures of a body in the form "<algorithm>=<hex>".
func hubSignatures(body string) []string {
	return []string{
		sign(token, body), signWith("sha1", sha1.New, token, body), signWith("sha512", sha512.New, token, body),
	}
}

func FuzzGenericHMAC(f *testing.F) {
	names := []string{"X-Signature"}
	fuzzVerifier(f, "generic-hmac", names, hubSignatures(""), signedBy(names, hubSignatures))
}

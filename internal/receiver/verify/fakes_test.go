package verify

import (
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"notifier/internal/receiver/oidc"
)

func newIssuers(tb testing.TB, transport http.RoundTripper, google string) *oidc.Issuers {
	tb.Helper()
	client := func(string) *http.Client { return &http.Client{Transport: transport} }
	s, err := oidc.New(oidc.Options{Client: client, Google: google})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// oidcVerifier accepts the issuer's tokens of the organisation org.
func oidcVerifier(tb testing.TB, issuers *oidc.Issuers, url string, change ...func(*OIDCProvider)) Verifier {
	tb.Helper()
	provider := OIDCProvider{
		IssuerURL: url,
		Variables: []OIDCVariable{
			{Name: "parts", Expression: `claims.repository.split("/")`},
			{Name: "owner", Expression: `vars.parts[0]`},
		},
		Validations: []OIDCValidation{
			{Expression: `vars.owner == "org"`, Message: "not our organisation"},
			{Expression: `claims.sub.startsWith("repo:") && !has(claims.forked)`, Message: "a fork"},
		},
	}
	for _, c := range change {
		c(&provider)
	}
	v, err := New("generic-oidc", Credentials{OIDC: []OIDCProvider{provider}, Issuers: issuers})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

const token = "s3cret"

func sign(key, body string) string { return "sha256=" + hexMAC(sha256.New, key, body) }

// elapse lets time pass on the clock of a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }

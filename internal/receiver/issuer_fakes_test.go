package receiver

import (
	"net/http"
	"testing"

	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/verify"
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
func oidcVerifier(tb testing.TB, issuers *oidc.Issuers, url string, change ...func(*verify.OIDCProvider)) verify.Verifier {
	tb.Helper()
	provider := verify.OIDCProvider{
		IssuerURL: url,
		Variables: []verify.OIDCVariable{
			{Name: "parts", Expression: `claims.repository.split("/")`},
			{Name: "owner", Expression: `vars.parts[0]`},
		},
		Validations: []verify.OIDCValidation{
			{Expression: `vars.owner == "org"`, Message: "not our organisation"},
			{Expression: `claims.sub.startsWith("repo:") && !has(claims.forked)`, Message: "a fork"},
		},
	}
	for _, c := range change {
		c(&provider)
	}
	v, err := verify.New("generic-oidc", verify.Credentials{OIDC: []verify.OIDCProvider{provider}, Issuers: issuers})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

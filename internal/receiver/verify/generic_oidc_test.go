package verify

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/alloctest"
	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/oidc/oidctest"
)

const issuerURL = "https://issuer.test"

// Fails when a claim is not checked, when an algorithm is accepted for which the public key suffices to sign, or when a
// key is accepted that the issuer does not list. Fails also when the answer quotes the message of a validation that
// passes.
func TestGenericOIDCAcceptsItsIssuersTokensAlone(t *testing.T) {
	issuer := oidctest.New(t, issuerURL, "a", "b")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
	public, err := x509.MarshalPKIXPublicKey(issuer.Key("a").Public())
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	valid := issuer.Token(t, "a", nil)
	head, rest, _ := strings.Cut(valid, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	past, future := time.Now().Add(-time.Minute).Unix(), time.Now().Add(time.Hour).Unix()
	for name, test := range map[string]struct {
		header http.Header
		want   error
	}{
		"valid":                        {oidctest.Bearer(valid), nil},
		"of the other key":             {oidctest.Bearer(issuer.Token(t, "b", nil)), nil},
		"no key ID":                    {oidctest.Bearer(oidctest.SignedToken(t, jose.ES256, issuer.Key("b"), "", issuer.Claims(nil))), nil},
		"scheme in lower case":         {http.Header{"Authorization": {"bearer " + valid}}, nil},
		"after several spaces":         {http.Header{"Authorization": {"Bearer  " + valid}}, nil},
		"spaces and no token":          {http.Header{"Authorization": {"Bearer   "}}, refusedNoToken},
		"one of several audiences":     {oidctest.Bearer(issuer.Token(t, "a", Claims{"aud": []string{"x", defaultAudience}})), nil},
		"no header":                    {http.Header{}, refusedNoToken},
		"another scheme":               {http.Header{"Authorization": {"Basic " + valid}}, refusedNoToken},
		"no token":                     {http.Header{"Authorization": {"Bearer "}}, refusedNoToken},
		"no parts":                     {oidctest.Bearer("abc"), oidc.RefusedBearer},
		"four parts":                   {oidctest.Bearer(valid + ".x"), oidc.RefusedBearer},
		"too long":                     {oidctest.Bearer(valid + strings.Repeat("A", 16<<10)), oidc.RefusedBearer},
		"no base64":                    {oidctest.Bearer(head + ".!." + signature), oidc.RefusedBearer},
		"no JSON":                      {oidctest.Bearer(head + ".YQ." + signature), oidc.RefusedBearer},
		"expired":                      {oidctest.Bearer(issuer.Token(t, "a", Claims{"exp": past})), oidc.RefusedExpired},
		"without an end":               {oidctest.Bearer(issuer.Token(t, "a", Claims{"exp": nil})), oidc.RefusedExpired},
		"not valid yet":                {oidctest.Bearer(issuer.Token(t, "a", Claims{"nbf": future})), oidc.RefusedClaims},
		"for another audience":         {oidctest.Bearer(issuer.Token(t, "a", Claims{"aud": "other"})), oidc.RefusedClaims},
		"for no audience":              {oidctest.Bearer(issuer.Token(t, "a", Claims{"aud": nil})), oidc.RefusedClaims},
		"of another issuer":            {oidctest.Bearer(issuer.Token(t, "a", Claims{"iss": "https://evil.test"})), oidc.RefusedIssuer},
		"of a longer issuer":           {oidctest.Bearer(issuer.Token(t, "a", Claims{"iss": issuerURL + "/"})), oidc.RefusedIssuer},
		"of no issuer":                 {oidctest.Bearer(issuer.Token(t, "a", Claims{"iss": nil})), oidc.RefusedIssuer},
		"unsigned":                     {oidctest.Bearer(part(map[string]string{"alg": "none"}) + "." + payload + "."), refusedAlgorithm},
		"signed with the public key":   {oidctest.Bearer(oidctest.SignedToken(t, jose.HS256, public, "a", issuer.Claims(nil))), refusedAlgorithm},
		"signed with a key of its own": {oidctest.Bearer(oidctest.SignedToken(t, jose.ES256, oidctest.NewKey(t), "c", issuer.Claims(nil))), oidc.RefusedKey},
		"signed under another's ID":    {oidctest.Bearer(oidctest.SignedToken(t, jose.ES256, oidctest.NewKey(t), "a", issuer.Claims(nil))), oidc.RefusedSigned},
		"signed without a key ID":      {oidctest.Bearer(oidctest.SignedToken(t, jose.ES256, oidctest.NewKey(t), "", issuer.Claims(nil))), oidc.RefusedSigned},
		"of another payload":           {oidctest.Bearer(head + "." + part(issuer.Claims(Claims{"repository": "org/x"})) + "." + signature), oidc.RefusedSigned},
		"of another owner":             {oidctest.Bearer(issuer.Token(t, "a", Claims{"repository": "evil/app"})), answer.Refusal("not our organisation")},
		"of a fork":                    {oidctest.Bearer(issuer.Token(t, "a", Claims{"forked": true})), answer.Refusal("a fork")},
		"of another owner's fork": {
			oidctest.Bearer(issuer.Token(t, "a", Claims{"forked": true, "repository": "evil/app"})), answer.Refusal("not our organisation; a fork"),
		},
		"a claim missing in a validation": {oidctest.Bearer(issuer.Token(t, "a", Claims{"sub": nil})), answer.Refusal("a fork")},
		"a claim missing in a variable":   {oidctest.Bearer(issuer.Token(t, "a", Claims{"repository": nil})), refusedVariable},
	} {
		if err := verify(v, test.header, "{}"); err != test.want { //nolint:errorlint // a Refusal is told as it is
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// A signature does not turn an invalid value into a time, and an issuer's own claims must not replace the standard ones.
// Fails when a token is accepted that states its end in an odd way, or hardly at all.
func TestATokenWithAnOddEndIsRefused(t *testing.T) {
	issuer := oidctest.New(t, issuerURL, "a")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
	raw := func(format string, args ...any) json.RawMessage { return json.RawMessage(fmt.Sprintf(format, args...)) }
	now := time.Now().Unix()
	for name, test := range map[string]struct {
		changes Claims
		want    error
	}{
		"in a minute":                     {Claims{"exp": now + 60}, nil},
		"in a minute, with an exponent":   {Claims{"exp": raw("%d00e-2", now+60)}, nil},
		"with all its times":              {Claims{"exp": now + 60, "iat": now - 1, "nbf": now - 1}, nil},
		"without the time of its issue":   {Claims{"iat": nil}, nil},
		"the life of a service account's": {Claims{"exp": now + 365*24*3600}, nil},
		"missing":                         {Claims{"exp": nil}, oidc.RefusedExpired},
		"zero":                            {Claims{"exp": 0}, oidc.RefusedExpired},
		"negative":                        {Claims{"exp": -now}, oidc.RefusedExpired},
		"null":                            {Claims{"exp": raw("null")}, oidc.RefusedBearer},
		"a string":                        {Claims{"exp": fmt.Sprint(now + 60)}, oidc.RefusedBearer},
		"no number at all":                {Claims{"exp": "NaN"}, oidc.RefusedBearer},
		"a list":                          {Claims{"exp": []int64{now + 60}}, oidc.RefusedBearer},
		"an object":                       {Claims{"exp": Claims{}}, oidc.RefusedBearer},
		"true":                            {Claims{"exp": true}, oidc.RefusedBearer},
		"with a fraction":                 {Claims{"exp": raw("%d.5", now+60)}, oidc.RefusedBearer},
		"beyond 64 bits":                  {Claims{"exp": raw("1e300")}, oidc.RefusedBearer},
		"beyond any number":               {Claims{"exp": raw("1e999")}, oidc.RefusedBearer},
		"the greatest of 64 bits":         {Claims{"exp": int64(math.MaxInt64)}, oidc.RefusedClaims},
		"in milliseconds":                 {Claims{"exp": (now + 60) * 1000}, oidc.RefusedClaims},
		"in two years":                    {Claims{"exp": now + 2*365*24*3600}, oidc.RefusedClaims},
		"before its issue":                {Claims{"exp": now + 60, "iat": now + 120}, oidc.RefusedClaims},
		"issued tomorrow":                 {Claims{"exp": now + 48*3600, "iat": now + 24*3600}, oidc.RefusedClaims},
		"issued at a string":              {Claims{"iat": fmt.Sprint(now)}, oidc.RefusedBearer},
		"before its beginning":            {Claims{"exp": now + 60, "nbf": now + 120}, oidc.RefusedClaims},
		"beginning at a fraction":         {Claims{"nbf": raw("%d.5", now-2)}, nil},
		"in capitals as well":             {Claims{"exp": now - 60, "EXP": now + 60}, oidc.RefusedBearer},
		"in capitals alone":               {Claims{"exp": nil, "Exp": now + 60}, oidc.RefusedBearer},
		"with a second audience":          {Claims{"aud": "other", "Aud": defaultAudience}, oidc.RefusedBearer},
		"with claims of its issuer's own": {Claims{"Email": "a@example.com", "EMAIL_VERIFIED": "yes"}, nil},
	} {
		if err := verify(v, oidctest.Bearer(issuer.Token(t, "a", test.changes)), "{}"); err != test.want { //nolint:errorlint // a Refusal is told as it is
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// Fails when the claims do not reach the filters.
func TestGenericOIDCGivesTheClaimsToFilters(t *testing.T) {
	issuer := oidctest.New(t, issuerURL, "a")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
	check, err := v.Begin(t.Context(), oidctest.Bearer(issuer.Token(t, "a", nil)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := check.Finish(nil)
	var claims Claims
	if err := errors.Join(err, json.Unmarshal(raw, &claims)); err != nil || claims["repository"] != "org/app" {
		t.Errorf("got %v, %v", claims, err)
	}
}

// Fails when the error does not name the unfit field, when a provider without validations is served, for which a public
// issuer signs anyone's tokens, and when a number of expressions is unbounded.
func TestGenericOIDCIsNotMadeOfAnUnfitSpec(t *testing.T) {
	issuers := newIssuers(t, oidctest.New(t, issuerURL), "")
	good := OIDCProvider{IssuerURL: issuerURL, Validations: []OIDCValidation{{Expression: "true", Message: "m"}}}
	with := func(change func(*OIDCProvider)) []OIDCProvider {
		p := good
		change(&p)
		return []OIDCProvider{p}
	}
	for name, test := range map[string]struct {
		providers []OIDCProvider
		want      string
		isCEL     bool
	}{
		"none":             {nil, "spec.oidcProviders needs", false},
		"one issuer twice": {[]OIDCProvider{good, good}, "spec.oidcProviders[1].issuerURL", false},
		"no URL":           {with(func(p *OIDCProvider) { p.IssuerURL = "ftp://x" }), "spec.oidcProviders[0].issuerURL", false},
		"no host":          {with(func(p *OIDCProvider) { p.IssuerURL = "https:///x" }), "spec.oidcProviders[0].issuerURL", false},
		"a query": {
			with(func(p *OIDCProvider) { p.IssuerURL = "http://x/delete?all=1&x=" }), "spec.oidcProviders[0].issuerURL has a query", false,
		},
		"an empty query": {with(func(p *OIDCProvider) { p.IssuerURL = "http://x/?" }), "issuerURL has a query or a fragment", false},
		"a fragment":     {with(func(p *OIDCProvider) { p.IssuerURL = "http://x/path#" }), "issuerURL has a query or a fragment", false},
		"a password":     {with(func(p *OIDCProvider) { p.IssuerURL = "http://u:p@x" }), "issuerURL has a user name or password", false},
		"no validations": {with(func(p *OIDCProvider) { p.Validations = nil }), "spec.oidcProviders[0].validations", false},
		"too many": {
			with(func(p *OIDCProvider) { p.Variables = make([]OIDCVariable, maxExpressions+1) }), "more than 32", false,
		},
		"a variable that is no CEL": {
			with(func(p *OIDCProvider) { p.Variables = []OIDCVariable{{Name: "a", Expression: "1 +"}} }), "spec.oidcProviders[0].variables[0].expression", true,
		},
		"a validation of a variable's type": {
			with(func(p *OIDCProvider) { p.Validations = []OIDCValidation{{Expression: "claims.a", Message: "m"}} }), "spec.oidcProviders[0].validations[0].expression", true,
		},
		"a validation that reads the body": {
			with(func(p *OIDCProvider) { p.Validations = []OIDCValidation{{Expression: "req.a == 1", Message: "m"}} }), "validations[0].expression", true,
		},
	} {
		_, err := New("generic-oidc", Credentials{OIDC: test.providers, Issuers: issuers})
		_, isCEL := errors.AsType[*ExpressionError](err)
		if err == nil || !strings.Contains(err.Error(), test.want) || isCEL != test.isCEL {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Fails when the tenant's messages make an answer of any length.
func TestMessagesAreBounded(t *testing.T) {
	issuer := oidctest.New(t, issuerURL, "a")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL, func(p *OIDCProvider) {
		p.Validations = []OIDCValidation{{Expression: "false", Message: "x" + strings.Repeat("é", maxMessages)}}
	})
	_, err := v.Begin(context.Background(), oidctest.Bearer(issuer.Token(t, "a", nil)))
	if n := len(err.Error()); n != maxMessages-1 || !strings.HasSuffix(err.Error(), "é") {
		t.Errorf("the message has %d bytes: %q", n, err.Error()[n-4:])
	}
}

// Fails when a variable is an optional value instead of the value in it, null for none: a token without a claim would then pass a
// validation that asks for the claim, and one with the claim would not pass a comparison, unlike with Flux.
func TestAVariableOfAnOptionalClaimIsItsValue(t *testing.T) {
	for expression, want := range map[string]bool{
		"vars.ref == 'main'": true, "type(vars.ref) == string": true, "vars.ref != null": true, "vars.nested == 'main'": true,
		"vars.none != null": false, "vars.none == null": true, "vars.none == null || vars.none == 'x'": true, "vars.ref == null": false,
	} {
		p := OIDCProvider{
			IssuerURL: issuerURL,
			Variables: []OIDCVariable{
				{Name: "ref", Expression: "claims.?ref"},
				{Name: "none", Expression: "claims.?missing"},
				{Name: "nested", Expression: "optional.of(claims.?ref)"},
			},
			Validations: []OIDCValidation{{Expression: expression, Message: "no"}},
		}
		if err := p.compile("field"); err != nil {
			t.Fatal(err)
		}
		if err := p.validate(t.Context(), Claims{"ref": "main"}); (err == nil) != want {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// Invariant T6: the evaluation of one token's claims is bounded in all, however many expressions there are. Fails when
// each has a budget of its own: 32 variables of nested maps then took 0.3 s and 215 MiB.
func TestT6TheExpressionsOfATokenShareOneBudget(t *testing.T) {
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	issuer := oidctest.New(t, issuerURL, "a")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL, func(p *OIDCProvider) {
		p.Variables = nil
		for n := range maxExpressions {
			p.Variables = append(p.Variables, OIDCVariable{Name: fmt.Sprint("v", n), Expression: ten + ".map(a," + ten + ".map(b,{a:b}))"})
		}
		p.Validations = []OIDCValidation{{Expression: "true", Message: "m"}}
	})
	header := oidctest.Bearer(issuer.Token(t, "a", nil))
	_ = verify(v, header, "{}") // fetches the keys
	var err error
	if made := alloctest.Bytes(func() { err = verify(v, header, "{}") }); err != refusedVariable || made > 8<<20 { //nolint:errorlint // a Refusal is told as it is
		t.Errorf("got %v after %d KiB were made", err, made>>10)
	}
}

// FuzzBearer checks that only tokens signed by the issuer are accepted, and that every error is a Refusal.
func FuzzBearer(f *testing.F) {
	issuer := oidctest.New(f, issuerURL, "a")
	v := oidcVerifier(f, newIssuers(f, issuer, ""), issuerURL)
	valid := issuer.Token(f, "a", Claims{"exp": time.Now().Add(time.Hour).Unix()})
	f.Add("Bearer " + valid)
	f.Add("Bearer " + valid[:len(valid)-2])
	f.Add("bearer a.e30.c")
	f.Add(`Bearer {"payload":"","signatures":[{},{}]}..`)
	f.Fuzz(func(t *testing.T, header string) {
		_, err := v.Begin(t.Context(), http.Header{"Authorization": {header}})
		_, refused := errors.AsType[answer.Refusal](err)
		_, token, _ := strings.Cut(header, " ")
		if err == nil && token != valid || err != nil && !refused {
			t.Errorf("%q: %v", header, err)
		}
	})
}

package receiver

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

const issuerURL = "https://issuer.test"

// Fails when a claim is not checked, when an algorithm is taken that whoever knows the public key can sign with, when a key is
// that the issuer does not list, and when a message of a validation that holds is told.
func TestGenericOIDCAcceptsItsIssuersTokensAlone(t *testing.T) {
	issuer := newFakeIssuer(t, issuerURL, "a", "b")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
	public, err := x509.MarshalPKIXPublicKey(issuer.keys["a"].Public())
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
	valid := issuer.token(t, "a", nil)
	head, rest, _ := strings.Cut(valid, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	past, future := time.Now().Add(-time.Minute).Unix(), time.Now().Add(time.Hour).Unix()
	for name, test := range map[string]struct {
		header http.Header
		want   error
	}{
		"valid":                        {bearer(valid), nil},
		"of the other key":             {bearer(issuer.token(t, "b", nil)), nil},
		"no key ID":                    {bearer(signedToken(t, jose.ES256, issuer.keys["b"], "", issuer.claims(nil))), nil},
		"scheme in lower case":         {http.Header{"Authorization": {"bearer " + valid}}, nil},
		"one of several audiences":     {bearer(issuer.token(t, "a", Claims{"aud": []string{"x", defaultAudience}})), nil},
		"no header":                    {http.Header{}, refusedNoToken},
		"another scheme":               {http.Header{"Authorization": {"Basic " + valid}}, refusedNoToken},
		"no token":                     {http.Header{"Authorization": {"Bearer "}}, refusedNoToken},
		"no parts":                     {bearer("abc"), refusedBearer},
		"four parts":                   {bearer(valid + ".x"), refusedBearer},
		"too long":                     {bearer(valid + strings.Repeat("A", maxBearer)), refusedBearer},
		"no base64":                    {bearer(head + ".!." + signature), refusedBearer},
		"no JSON":                      {bearer(head + ".YQ." + signature), refusedBearer},
		"expired":                      {bearer(issuer.token(t, "a", Claims{"exp": past})), refusedExpired},
		"without an end":               {bearer(issuer.token(t, "a", Claims{"exp": nil})), refusedExpired},
		"not valid yet":                {bearer(issuer.token(t, "a", Claims{"nbf": future})), refusedClaims},
		"for another audience":         {bearer(issuer.token(t, "a", Claims{"aud": "other"})), refusedClaims},
		"for no audience":              {bearer(issuer.token(t, "a", Claims{"aud": nil})), refusedClaims},
		"of another issuer":            {bearer(issuer.token(t, "a", Claims{"iss": "https://evil.test"})), refusedIssuer},
		"of a longer issuer":           {bearer(issuer.token(t, "a", Claims{"iss": issuerURL + "/"})), refusedIssuer},
		"of no issuer":                 {bearer(issuer.token(t, "a", Claims{"iss": nil})), refusedIssuer},
		"unsigned":                     {bearer(part(map[string]string{"alg": "none"}) + "." + payload + "."), refusedAlgorithm},
		"signed with the public key":   {bearer(signedToken(t, jose.HS256, public, "a", issuer.claims(nil))), refusedAlgorithm},
		"signed with a key of its own": {bearer(signedToken(t, jose.ES256, newKey(t), "c", issuer.claims(nil))), refusedKey},
		"signed under another's ID":    {bearer(signedToken(t, jose.ES256, newKey(t), "a", issuer.claims(nil))), refusedSigned},
		"signed without a key ID":      {bearer(signedToken(t, jose.ES256, newKey(t), "", issuer.claims(nil))), refusedSigned},
		"of another payload":           {bearer(head + "." + part(issuer.claims(Claims{"repository": "org/x"})) + "." + signature), refusedSigned},
		"of another owner":             {bearer(issuer.token(t, "a", Claims{"repository": "evil/app"})), Refusal("not our organisation")},
		"of a fork":                    {bearer(issuer.token(t, "a", Claims{"forked": true})), Refusal("a fork")},
		"of another owner's fork": {
			bearer(issuer.token(t, "a", Claims{"forked": true, "repository": "evil/app"})), Refusal("not our organisation; a fork"),
		},
		"a claim missing in a validation": {bearer(issuer.token(t, "a", Claims{"sub": nil})), Refusal("a fork")},
		"a claim missing in a variable":   {bearer(issuer.token(t, "a", Claims{"repository": nil})), refusedVariable},
	} {
		if err := verify(v, test.header, "{}"); err != test.want { //nolint:errorlint // a Refusal is told as it is
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// A signature does not make a time of what is none, and an issuer's own claims must not take the place of those that count. Fails when
// a token is accepted that says in an odd way, or hardly at all, when it ends.
func TestATokenWithAnOddEndIsRefused(t *testing.T) {
	issuer := newFakeIssuer(t, issuerURL, "a")
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
		"missing":                         {Claims{"exp": nil}, refusedExpired},
		"zero":                            {Claims{"exp": 0}, refusedExpired},
		"negative":                        {Claims{"exp": -now}, refusedExpired},
		"null":                            {Claims{"exp": raw("null")}, refusedBearer},
		"a string":                        {Claims{"exp": fmt.Sprint(now + 60)}, refusedBearer},
		"no number at all":                {Claims{"exp": "NaN"}, refusedBearer},
		"a list":                          {Claims{"exp": []int64{now + 60}}, refusedBearer},
		"an object":                       {Claims{"exp": Claims{}}, refusedBearer},
		"true":                            {Claims{"exp": true}, refusedBearer},
		"with a fraction":                 {Claims{"exp": raw("%d.5", now+60)}, refusedBearer},
		"beyond 64 bits":                  {Claims{"exp": raw("1e300")}, refusedBearer},
		"beyond any number":               {Claims{"exp": raw("1e999")}, refusedBearer},
		"the greatest of 64 bits":         {Claims{"exp": int64(math.MaxInt64)}, refusedClaims},
		"in milliseconds":                 {Claims{"exp": (now + 60) * 1000}, refusedClaims},
		"in two years":                    {Claims{"exp": now + 2*365*24*3600}, refusedClaims},
		"before its issue":                {Claims{"exp": now + 60, "iat": now + 120}, refusedClaims},
		"issued tomorrow":                 {Claims{"exp": now + 48*3600, "iat": now + 24*3600}, refusedClaims},
		"issued at a string":              {Claims{"iat": fmt.Sprint(now)}, refusedBearer},
		"before its beginning":            {Claims{"exp": now + 60, "nbf": now + 120}, refusedClaims},
		"beginning at a fraction":         {Claims{"nbf": raw("%d.5", now-1)}, refusedBearer},
		"in capitals as well":             {Claims{"exp": now - 60, "EXP": now + 60}, refusedBearer},
		"in capitals alone":               {Claims{"exp": nil, "Exp": now + 60}, refusedBearer},
		"with a second audience":          {Claims{"aud": "other", "Aud": defaultAudience}, refusedBearer},
	} {
		if err := verify(v, bearer(issuer.token(t, "a", test.changes)), "{}"); err != test.want { //nolint:errorlint // a Refusal is told as it is
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// Fails when the claims are lost on their way to the filters.
func TestGenericOIDCGivesTheClaimsToFilters(t *testing.T) {
	issuer := newFakeIssuer(t, issuerURL, "a")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
	check, err := v.Begin(t.Context(), bearer(issuer.token(t, "a", nil)))
	if err != nil {
		t.Fatal(err)
	}
	if claims, err := check.Finish(nil); err != nil || claims["repository"] != "org/app" {
		t.Errorf("got %v, %v", claims, err)
	}
}

// The whole way over a real socket: discovery, keys, the door, the trigger, and the tenant's own words in the answer. Fails when
// the sender is not told which validation does not hold, and when an issuer that is down is the sender's fault.
func TestGenericOIDCThroughTheDoor(t *testing.T) {
	issuer := newFakeIssuer(t, "", "a")
	server := httptest.NewServer(issuer)
	defer server.Close()
	issuer.url = server.URL
	hook := newHook(t, "team/app", func(h *Hook) {
		h.Verifier = oidcVerifier(t, newIssuers(t, http.DefaultTransport, ""), issuer.url)
		h.Path = Path("", h.Name, h.Namespace)
	})
	dead := newHook(t, "team/dead", func(h *Hook) {
		down := newFakeIssuer(t, issuer.url, "a")
		down.answers(silence)
		h.Verifier = oidcVerifier(t, newIssuers(t, down, ""), issuer.url)
		h.Path = Path("", h.Name, h.Namespace)
	})
	bus := &recorder{}
	door := newWebhooks(t, newTable(t, unlimited(), hook, dead), bus)
	for name, test := range map[string]struct {
		path, token string
		status      int
		body        string
		triggers    int
	}{
		"accepted":         {hook.Path, issuer.token(t, "a", nil), 200, `{"accepted":true}`, 1},
		"of another owner": {hook.Path, issuer.token(t, "a", Claims{"repository": "b/c"}), 400, `{"reason":"not our organisation"}`, 0},
		"issuer down":      {dead.Path, issuer.token(t, "a", nil), 503, `{"reason":"the issuer's keys are not available"}`, 0},
	} {
		before := bus.count()
		r := httptest.NewRequest(http.MethodPost, test.path, strings.NewReader("{}"))
		r.Header = bearer(test.token)
		resp := do(door, r)
		if got := bodyOf(t, resp); resp.StatusCode != test.status || got != test.body || bus.count()-before != test.triggers {
			t.Errorf("%s: got %d %s and %d triggers, want %+v", name, resp.StatusCode, got, bus.count()-before, test)
		}
	}
	server.CloseClientConnections()
}

// Fails when what is wrong is not named by its field, when a provider without validations is served, which a public issuer signs
// for anyone, and when a number of expressions is not bounded.
func TestGenericOIDCIsNotMadeOfAnUnfitSpec(t *testing.T) {
	issuers := newIssuers(t, newFakeIssuer(t, issuerURL), "")
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
			with(func(p *OIDCProvider) { p.Variables = []OIDCVariable{{"a", "1 +"}} }), "spec.oidcProviders[0].variables[0].expression", true,
		},
		"a validation of a variable's type": {
			with(func(p *OIDCProvider) { p.Validations = []OIDCValidation{{"claims.a", "m"}} }), "spec.oidcProviders[0].validations[0].expression", true,
		},
		"a validation that reads the body": {
			with(func(p *OIDCProvider) { p.Validations = []OIDCValidation{{"req.a == 1", "m"}} }), "validations[0].expression", true,
		},
	} {
		_, err := NewVerifier("generic-oidc", Credentials{OIDC: test.providers, Issuers: issuers})
		_, isCEL := errors.AsType[*ExpressionError](err)
		if err == nil || !strings.Contains(err.Error(), test.want) || isCEL != test.isCEL {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Fails when the tenant's messages make an answer of any length.
func TestMessagesAreBounded(t *testing.T) {
	issuer := newFakeIssuer(t, issuerURL, "a")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL, func(p *OIDCProvider) {
		p.Validations = []OIDCValidation{{"false", "x" + strings.Repeat("é", maxMessages)}}
	})
	_, err := v.Begin(context.Background(), bearer(issuer.token(t, "a", nil)))
	if n := len(err.Error()); n != maxMessages-1 || !strings.HasSuffix(err.Error(), "é") {
		t.Errorf("the message has %d bytes: %q", n, err.Error()[n-4:])
	}
}

// Invariant T6: what one token's claims are tried with is bounded in all, however many expressions there are. Fails when each has a
// budget of its own: 32 variables of nested maps then took 0.3 s and 215 MiB.
func TestT6TheExpressionsOfATokenShareOneBudget(t *testing.T) {
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	issuer := newFakeIssuer(t, issuerURL, "a")
	v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL, func(p *OIDCProvider) {
		p.Variables = nil
		for n := range maxExpressions {
			p.Variables = append(p.Variables, OIDCVariable{fmt.Sprint("v", n), ten + ".map(a," + ten + ".map(b,{a:b}))"})
		}
		p.Validations = []OIDCValidation{{"true", "m"}}
	})
	header := bearer(issuer.token(t, "a", nil))
	_ = verify(v, header, "{}") // fetches the keys
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := verify(v, header, "{}")
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; err != refusedVariable || made > 8<<20 { //nolint:errorlint // a Refusal is told as it is
		t.Errorf("got %v after %d KiB were made", err, made>>10)
	}
}

// Invariant T6: fails when a namespace's tokens are tried all at once, which multiplies what one takes, and when the one that has to
// wait in vain is told that it is not authentic.
func TestT6TokensWaitForTheirNamespacesTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newFakeIssuer(t, issuerURL, "a")
		room := NewWorkroom()
		verifier := func(namespace string) Verifier {
			v, err := NewVerifier("generic-oidc", Credentials{
				Namespace: namespace, Room: room, Issuers: newIssuers(t, issuer, ""),
				OIDC: []OIDCProvider{{IssuerURL: issuerURL, Validations: []OIDCValidation{{"true", "m"}}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		leave, _ := room.enter(t.Context(), "team", 0)
		hook := newHook(t, "team/app", func(h *Hook) { h.Verifier = verifier("team") })
		door := newWebhooks(t, newTable(t, unlimited(), hook), &recorder{})
		post := func() int {
			r := httptest.NewRequest(http.MethodPost, hook.Path, strings.NewReader("{}"))
			r.Header = bearer(issuer.token(t, "a", nil))
			return do(door, r).StatusCode
		}
		if got := post(); got != http.StatusServiceUnavailable {
			t.Errorf("without a turn: %d", got)
		}
		leave()
		if got := post(); got != http.StatusOK {
			t.Errorf("with a turn: %d", got)
		}
	})
}

// FuzzBearer holds that nothing is accepted that the issuer has not signed, and that nothing but Refusals comes of it.
func FuzzBearer(f *testing.F) {
	issuer := newFakeIssuer(f, issuerURL, "a")
	v := oidcVerifier(f, newIssuers(f, issuer, ""), issuerURL)
	valid := issuer.token(f, "a", Claims{"exp": time.Now().Add(time.Hour).Unix()})
	f.Add("Bearer " + valid)
	f.Add("Bearer " + valid[:len(valid)-2])
	f.Add("bearer a.e30.c")
	f.Add(`Bearer {"payload":"","signatures":[{},{}]}..`)
	f.Fuzz(func(t *testing.T, header string) {
		_, err := v.Begin(t.Context(), http.Header{"Authorization": {header}})
		_, refused := errors.AsType[Refusal](err)
		_, token, _ := strings.Cut(header, " ")
		if err == nil && token != valid || err != nil && !refused {
			t.Errorf("%q: %v", header, err)
		}
	})
}

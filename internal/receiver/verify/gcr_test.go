package verify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/oidc/oidctest"
)

const (
	googleTest = "https://google.test"
	pusher     = "pusher@project.iam.gserviceaccount.com"
	gcrURL     = "https://notifier.example.com/hook"
)

func gcrVerifier(tb testing.TB, google *oidctest.Issuer) Verifier {
	tb.Helper()
	v, err := New("gcr", Credentials{
		Token: []byte(token), Issuers: newIssuers(tb, google, googleTest),
		Values: map[string][]byte{"email": []byte(pusher), "audience": []byte(gcrURL)},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// Fails when one of the four claims is not checked. Without the account, the subject of CVE-2026-40109, everybody's
// tokens count.
func TestGCRAcceptsOneAccountsTokensAlone(t *testing.T) {
	google := oidctest.New(t, googleTest, "a")
	v := gcrVerifier(t, google)
	good := func(changes Claims) http.Header {
		claims := google.Claims(Claims{"aud": gcrURL, "email": pusher, "email_verified": true})
		maps.Copy(claims, changes)
		return oidctest.Bearer(oidctest.SignedToken(t, jose.ES256, google.Key("a"), "a", claims))
	}
	for name, test := range map[string]struct {
		header http.Header
		want   error
	}{
		"valid":                        {good(nil), nil},
		"the issuer without a scheme":  {good(Claims{"iss": "google.test"}), nil},
		"another issuer":               {good(Claims{"iss": "https://evil.test"}), oidc.RefusedIssuer},
		"no issuer":                    {good(Claims{"iss": ""}), oidc.RefusedIssuer},
		"another audience":             {good(Claims{"aud": "https://other.example.com"}), oidc.RefusedClaims},
		"another account":              {good(Claims{"email": "evil@project.iam.gserviceaccount.com"}), refusedEmail},
		"no account":                   {good(Claims{"email": ""}), refusedEmail},
		"an account of a number":       {good(Claims{"email": 1}), oidc.RefusedBearer},
		"an unverified account":        {good(Claims{"email_verified": false}), refusedUnverified},
		"an account verified in words": {good(Claims{"email_verified": "true"}), oidc.RefusedBearer},
		"an account in capitals":       {good(Claims{"email": nil, "Email": pusher}), refusedEmail},
		"another account beside it":    {good(Claims{"email": "evil@project.iam.gserviceaccount.com", "EMAIL": pusher}), refusedEmail},
		"verified in capitals":         {good(Claims{"email_verified": nil, "Email_Verified": true}), refusedUnverified},
		"expired":                      {good(Claims{"exp": 1}), oidc.RefusedExpired},
		"ending at a text":             {good(Claims{"exp": "4102444800"}), oidc.RefusedBearer},
		"no token":                     {http.Header{}, refusedNoToken},
	} {
		if err := verify(v, test.header, "{}"); err != test.want { //nolint:errorlint // a Refusal is told as it is
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// Fails when data that is not base64 is taken for an empty message, as in Flux, when filters see the envelope, and when
// the ID of the message is lost.
func TestGCRReadsTheMessageInItsEnvelope(t *testing.T) {
	v := gcrVerifier(t, oidctest.New(t, googleTest, "a"))
	image := `{"action":"INSERT","digest":"r.io/p/app@sha256:1","tag":"r.io/p/app:v1","more":{}}`
	envelope := func(data string) string {
		return fmt.Sprintf(`{"message":{"data":%q,"messageId":"42","publishTime":"2026-01-02T03:04:05Z"},"subscription":"s"}`, data)
	}
	in64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, test := range map[string]struct {
		body string
		want error
	}{
		"a push":                  {envelope(in64(image)), nil},
		"no message":              {`{}`, refusedField},
		"no data":                 {envelope(""), refusedField},
		"a message of a text":     {`{"message":"x"}`, refusedField},
		"no JSON":                 {`x`, refusedJSON},
		"data that is no base64":  {envelope("!" + in64(image)), refusedData},
		"data that is no JSON":    {envelope(in64("x")), refusedData},
		"data of another type":    {envelope(in64(`{"action":1}`)), refusedData},
		"data without an action":  {envelope(in64(`{"tag":"x"}`)), refusedData},
		"data that is not quoted": {`{"message":{"data":1}}`, refusedField},
	} {
		content, err := v.Content(t.Context(), nil, []byte(test.body))
		if !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
		if test.want != nil {
			continue
		}
		if want := `{"action":"INSERT","digest":"r.io/p/app@sha256:1","tag":"r.io/p/app:v1"}`; string(content.Document) != want {
			t.Errorf("filters read %s, want %s", content.Document, want)
		}
		if content.Event != (Event{Delivery: "42"}) {
			t.Errorf("the event is %+v", content.Event)
		}
	}
}

// Fails when a Receiver that lacks a value to compare with is served.
func TestGCRNeedsAllItsKeys(t *testing.T) {
	issuers := newIssuers(t, oidctest.New(t, googleTest), googleTest)
	for _, missing := range SecretKeys("gcr") {
		for name, empty := range map[string][]byte{"missing": nil, "empty": {}} {
			values := map[string][]byte{"email": []byte(pusher), "audience": []byte(gcrURL)}
			values[missing] = empty
			_, err := New("gcr", Credentials{Token: []byte(token), Values: values, Issuers: issuers})
			if got, ok := errors.AsType[*MissingKeyError](err); !ok || got.Key != missing {
				t.Errorf("%s is %s: got %v", missing, name, err)
			}
		}
	}
	_, err := New("gcr", Credentials{Issuers: issuers})
	if !errors.Is(err, ErrEmptyToken) {
		t.Errorf("without a token: %v", err)
	}
}

func FuzzGCR(f *testing.F) {
	v := gcrVerifier(f, oidctest.New(f, googleTest, "a"))
	f.Add([]byte(`{"message":{"data":"eyJhY3Rpb24iOiJJTlNFUlQifQ==","messageId":"1"}}`))
	f.Add([]byte(`{"message":{"data":"eyJhY3Rpb24i"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		content, err := v.Content(t.Context(), nil, body)
		_, refused := errors.AsType[answer.Refusal](err)
		if err != nil && !refused || err == nil && len(content.Document) > 6*len(body)+64 {
			t.Errorf("%q: %q, %v", body, content.Document, err)
		}
	})
}

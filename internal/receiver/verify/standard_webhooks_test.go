package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"notifier/internal/receiver/answer"
)

// signingKey is the key in signingSecret.
const (
	signingKey    = "0123456789abcdef0123456789abcdef"
	signingSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

// standardMAC returns the signature of a message, computed as the specification defines it.
func standardMAC(key, id, timestamp, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// message returns the headers of a message that is signed with key at a time.
func message(key, id string, at time.Time, body string, namesAndValues ...string) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	return header(append([]string{
		"webhook-id", id, "webhook-timestamp", timestamp, "webhook-signature", standardMAC(key, id, timestamp, body),
	}, namesAndValues...)...)
}

// standardAttempts returns requests with attemptBody, signed with signingKey, at times around now.
func standardAttempts() map[string]attempt {
	const body, id = attemptBody, "msg_1"
	now := time.Now()
	good := message(signingKey, id, now, body).Get("webhook-signature")
	signed := func(namesAndValues ...string) http.Header {
		return message(signingKey, id, now, body, namesAndValues...)
	}
	spelled := func(timestamp string) http.Header {
		return signed("webhook-timestamp", timestamp, "webhook-signature", standardMAC(signingKey, id, timestamp, body)+" "+good)
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	return map[string]attempt{
		"signed":                        {signed(), nil},
		"the second of several":         {signed("webhook-signature", "v1,AAAA "+standardMAC("old", id, stamp, body)+" "+good), nil},
		"beside an asymmetric one":      {signed("webhook-signature", "v1a,AAAA "+good), nil},
		"with the id of another":        {signed("webhook-id", "msg_2"), refusedMismatch},
		"with the time of another":      {signed("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10)), refusedMismatch},
		"another body's":                {message(signingKey, id, now, body+" "), refusedMismatch},
		"another key's":                 {message("other", id, now, body), refusedMismatch},
		"the empty key's":               {message("", id, now, body), refusedMismatch},
		"the key's spelling as the key": {message(signingSecret, id, now, body), refusedMismatch},
		"half of it":                    {signed("webhook-signature", good[:20]), refusedMismatch},
		"nothing of it":                 {signed("webhook-signature", "v1,"), refusedMismatch},
		"no version":                    {signed("webhook-signature", good[3:]), refusedAlgorithm},
		"an asymmetric one alone":       {signed("webhook-signature", "v1a"+good[2:]), refusedAlgorithm},
		"separated by a comma":          {signed("webhook-signature", "v2,x,"+good), refusedAlgorithm},
		"in hex":                        {signed("webhook-signature", "v1,"+hexMAC(sha256.New, signingKey, id+"."+stamp+"."+body)), refusedMismatch},
		"no signature":                  {signed("webhook-signature", ""), refusedNoSignature},
		"no id":                         {message(signingKey, "", now, body), refusedNoStamp},
		"no time":                       {signed("webhook-timestamp", "", "webhook-signature", standardMAC(signingKey, id, "", body)), refusedNoStamp},
		"a dot in the id":               {message(signingKey, "msg.1", now, body), refusedID},
		"a time with a sign":            {spelled("+" + stamp), refusedTimestamp},
		"a time with a zero":            {spelled("0" + stamp), refusedTimestamp},
		"a time with a fraction":        {spelled(stamp + ".0"), refusedTimestamp},
		"a time with a space":           {spelled(stamp + " 1"), refusedTimestamp},
		"a time in words":               {spelled(now.Format(time.RFC3339)), refusedTimestamp},
		"a time beyond 64 bits":         {spelled(strings.Repeat("9", 30)), refusedTimestamp},
		"the greatest time":             {spelled("9223372036854775807"), refusedWindow},
		"the least time":                {spelled("-9223372036854775808"), refusedWindow},
		"5 minutes ago":                 {message(signingKey, id, now.Add(-5*time.Minute), body), nil},
		"5 minutes and a second ago":    {message(signingKey, id, now.Add(-5*time.Minute-time.Second), body), refusedWindow},
		"in 5 minutes":                  {message(signingKey, id, now.Add(5*time.Minute), body), nil},
		"in 5 minutes and a second":     {message(signingKey, id, now.Add(5*time.Minute+time.Second), body), refusedWindow},
		"an empty body's":               {message(signingKey, id, now, ""), refusedMismatch},
		"a body cut at a dot":           {message(signingKey, id, now, "x."+body), refusedMismatch},
	}
}

// Fails when the comparison, the window or one of its edges is missing. Fails also without one of the checks that the
// library omits: the dot in an ID, the spelling of a time, the key's decoding.
func TestStandardWebhooksRequiresAValidSignature(t *testing.T) {
	for _, secret := range []string{signingSecret, strings.TrimPrefix(signingSecret, "whsec_"), signingSecret + "\n"} {
		synctest.Test(t, func(t *testing.T) {
			v := verifierOf(t, "standard-webhooks", secret)
			for name, a := range standardAttempts() {
				if got := verify(v, a.header, attemptBody); !errors.Is(got, a.want) {
					t.Errorf("%s: got %v, want %v", name, got, a.want)
				}
			}
		})
	}
}

// Fails when a request can be replayed after the window.
func TestAStandardWebhookCannotBeReplayedAfterTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, h := verifierOf(t, "standard-webhooks", signingSecret), message(signingKey, "msg_1", time.Now(), "{}")
		elapse(5 * time.Minute)
		if err := verify(v, h, "{}"); err != nil {
			t.Errorf("after 5 minutes: %v", err)
		}
		elapse(time.Second)
		if err := verify(v, h, "{}"); !errors.Is(err, refusedWindow) {
			t.Errorf("after another second: %v, want %v", err, refusedWindow)
		}
	})
}

// Fails when a key is accepted that everybody has or that no sender can use, or when the error quotes the token.
func TestStandardWebhooksNeedsASigningSecret(t *testing.T) {
	for name, secret := range map[string]string{
		"no base64": "s3cret-s3cret", "an empty key": "whsec_", "a key of line breaks": "whsec_\r\n", "an asymmetric key": "whpk_MDEyMw==",
		"no padding": "whsec_MDEyMw", "a prefix in capitals": "WHSEC_MDEyMw==", "a space": "whsec_ MDEyMw==",
	} {
		v, err := New("standard-webhooks", Credentials{Token: []byte(secret)})
		if err == nil || v != nil {
			t.Errorf("%s: %v, %v; want an error", name, v, err)
			continue
		}
		for _, part := range []string{"s3cret", "MDEyMw", "whpk", "WHSEC", "input byte"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q tells of the token", name, err)
			}
		}
	}
}

// Fails when the name is not the field "type", or when a body without one is refused.
func TestStandardWebhooksReadsTheEventInTheBody(t *testing.T) {
	v := verifierOf(t, "standard-webhooks", signingSecret)
	if !v.KeepsBody() {
		t.Fatal("standard-webhooks does not read the body")
	}
	for body, want := range map[string]string{
		`{"type":"image.pushed","timestamp":"2026-01-01T00:00:00Z","data":{"type":"x"}}`: "image.pushed",
		`{"data":{"type":"x"}}`: "", `{"type":1}`: "", `{"type":"a"`: "", `["type"]`: "", `null`: "", ``: "", `plain`: "",
	} {
		c, err := v.Content(t.Context(), header("webhook-id", "msg_1"), []byte(body))
		if want := (Event{Name: want, Selects: true, Delivery: "msg_1"}); err != nil || c.Event != want {
			t.Errorf("%s: %+v, %v; want %+v", body, c.Event, err, want)
		}
	}
}

// FuzzStandardWebhooks compares with the library, which accepts more: dots in an ID and times in other spellings.
func FuzzStandardWebhooks(f *testing.F) {
	f.Add("msg_1", "", int64(0), "", true, "{}")
	f.Add("msg_1", "", int64(301), "v1a,AAAA", true, `{"type":"a"}`)
	f.Add("msg.1", "", int64(-300), "v1, v1,", true, "")
	f.Add("", "+1", int64(0), "v1,AAAA", false, `{"type":{}}`)
	f.Add("a", "9223372036854775807", int64(0), ",", true, "\xff")
	v := verifierOf(f, "standard-webhooks", signingSecret)
	library, err := standardwebhooks.NewWebhook(signingSecret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, timestamp string, offset int64, signatures string, sign bool, body string) {
		if timestamp == "" {
			timestamp = strconv.FormatInt(time.Now().Unix()+offset%1000, 10)
		}
		if sign {
			signatures += " " + standardMAC(signingKey, id, timestamp, body)
		}
		h := header("webhook-id", id, "webhook-timestamp", timestamp, "webhook-signature", signatures)
		got, want := verify(v, h, body), library.Verify([]byte(body), h)
		if _, ok := errors.AsType[answer.Refusal](got); got != nil && !ok {
			t.Fatalf("%v is no Refusal", got)
		}
		stricter := errors.Is(got, refusedID) || errors.Is(got, refusedTimestamp)
		if (got == nil) != (want == nil) && !stricter {
			t.Fatalf("%v: %v, and the library: %v", h, got, want)
		}
		if c, err := v.Content(t.Context(), h, []byte(body)); err != nil || !c.Event.Selects || c.Event.Ping || c.Event.Delivery != id {
			t.Fatalf("%+v, %v", c, err)
		}
	})
}

package generic

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

func TestContract(t *testing.T) {
	for _, typ := range []string{"generic", "generic-hmac"} {
		t.Run(typ, func(t *testing.T) {
			providertest.Run(t, providertest.Subject{New: provider.Builder(New), Config: provider.Config{Type: typ}})
		})
	}
}

func TestPayloads(t *testing.T) {
	for _, typ := range []string{"generic", "generic-hmac"} {
		sink := providertest.NewSink(t, nil)
		s, err := New(provider.Config{
			Type: typ, Address: sink.URL + "/hook", Token: "key", Network: providertest.Loopback(),
			Headers: map[string]string{"X-Tenant": " team-a\n", "authorization": "Bearer abc"},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(typ, func(t *testing.T) { providertest.Golden(t, typ, s, sink) })
	}
}

// Fails when the MAC covers other bytes than those sent, or uses another key.
func TestSignatureCoversTheBodyAsSent(t *testing.T) {
	sink := providertest.NewSink(t, nil)
	s := providertest.NewSender(t, New, provider.Config{Type: "generic-hmac", Address: sink.URL, Token: " a key \n", Network: providertest.Loopback()})
	if err := s.Send(t.Context(), providertest.Notifications(t)["metadata"]); err != nil {
		t.Fatal(err)
	}
	got := sink.Last(t)
	mac := hmac.New(sha256.New, []byte(" a key \n"))
	mac.Write(got.Body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); got.Header.Get("X-Signature") != want {
		t.Errorf("X-Signature is %q, want %q", got.Header.Get("X-Signature"), want)
	}
	if e, err := event.Decode(got.Body); err != nil || e.InvolvedObject.Name != "apps" {
		t.Errorf("the body is no event: %v", err)
	}
}

// Fails when a replay has no header Replayed, or when any other notification has one. The headers of the Secret must not change that.
func TestAReplaySaysSo(t *testing.T) {
	sink := providertest.NewSink(t, nil)
	s := providertest.NewSender(t, New, provider.Config{
		Type: "generic", Address: sink.URL, Headers: map[string]string{"replayed": "maybe"}, Network: providertest.Loopback(),
	})
	for _, replayed := range []bool{true, false} {
		n := providertest.Notifications(t)["metadata"]
		n.Replayed = replayed
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if got := sink.Last(t).Header.Get("Replayed"); (got == "true") != replayed || got == "maybe" {
			t.Errorf("replayed %t: the header is %q", replayed, got)
		}
	}
}

// Fails when the check compares names by their spelling, or when X-Signature is not reserved for generic-hmac. Fails also when one of
// ours is sent, removes the other headers, or is not reported.
func TestReservedHeadersAreIgnoredAndReported(t *testing.T) {
	sink := providertest.NewSink(t, nil)
	headers := map[string]string{
		"hOsT": "secret", "Content-length": "1", "transfer-encoding": "chunked", "connection": "close", "Upgrade": "h2c",
		"proxy-authorization": "Basic secret", "IDEMPOTENCY-KEY": "secret", "via": "secret", "x-signature": "sha256=secret", "Host": "secret",
		"X-Tenant": "kept",
	}
	s := providertest.NewSender(t, New, provider.Config{
		Type: "generic-hmac", Token: "key", Address: sink.URL, Headers: headers, Network: providertest.Loopback(),
	})
	defer func() { _ = s.Close() }()
	want := "Connection Content-Length Host Idempotency-Key Proxy-Authorization Transfer-Encoding Upgrade Via X-Signature"
	if got := strings.Join(s.Ignored(), " "); got != want {
		t.Errorf("ignored: got %s, want %s", got, want)
	}
	if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
		t.Fatal(err)
	}
	got := sink.Last(t)
	if text := fmt.Sprint(got.Host, got.Header); strings.Contains(text, "secret") || got.Header.Get("X-Tenant") != "kept" {
		t.Errorf("sent: %s", text)
	}
	signed := map[string]string{"X-Signature": "mine", "Content-Type": "application/cloudevents+json", "Gotk-Component": "me"}
	plain, err := New(provider.Config{Type: "generic", Address: "https://far.test", Headers: signed})
	if err != nil || plain.Ignored() != nil {
		t.Errorf("plain generic signs nothing, so the header is the tenant's: %v, ignored %v", err, plain.Ignored())
	}
}

func TestHeadersThatNobodyCanSendAreRefused(t *testing.T) {
	tooMany := map[string]string{}
	for i := range provider.MaxHeaders + 1 {
		tooMany["X-"+strings.Repeat("a", i+1)] = "v"
	}
	refused := map[string]map[string]string{
		"a name that is none":     {"X secret": "v"},
		"an empty name":           {"": "secret"},
		"a value over two lines":  {"X-A": "secret\r\nX-B: secret"},
		"one name written twice":  {"X-A": "secret", "x-a": "secret"},
		"more than fit":           tooMany,
		"longer than a head fits": {"X-A": strings.Repeat("secret", 4000)},
	}
	for name, headers := range refused {
		_, err := New(provider.Config{Type: "generic-hmac", Token: "key", Address: "https://far.test", Headers: headers})
		if err == nil {
			t.Errorf("%s: New took it", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes it: %v", name, err)
		}
	}
}

func TestSigningNeedsAKey(t *testing.T) {
	if _, err := New(provider.Config{Type: "generic-hmac", Address: "https://far.test"}); err == nil {
		t.Error("New took an empty token: anyone could sign")
	}
}

package sentry

import (
	"errors"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
)

// Fails when a path before the project's number, as of self-hosted Sentrys, is lost, or the DSN's key is sent in another way.
func TestADSNNamesTheEndpointAndTheKey(t *testing.T) {
	for in, want := range map[string]string{
		"https://k@o1.ingest.sentry.io/42":          "https://o1.ingest.sentry.io/api/42/envelope/",
		" https://k:secret@sentry.test/a/b/42/?x=y": "https://sentry.test/a/b/api/42/envelope/",
	} {
		if got, err := parseDSN(in); err != nil || got.envelopes() != want || got.key != "k" {
			t.Errorf("%s: got %s, %s, %v", in, got.envelopes(), got.key, err)
		}
	}
	for _, in := range []string{
		"https://sentry.test/42", "https://k@sentry.test", "https://k@sentry.test/", "https://k@/42", "k@sentry.test/42",
	} {
		if _, err := parseDSN(in); err == nil || strings.Contains(err.Error(), "sentry.test") {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := New(provider.Config{Address: "https://a%0Ab@sentry.test/42"}); err == nil {
		t.Error("New took a key over two lines")
	}
}

// Fails when the token would be sent to another host than the DSN's or, for Sentry's own service, than the API's of its region.
func TestADSNNamesTheHostOfTheAPI(t *testing.T) {
	for in, want := range map[string][2]string{
		"https://k@o123.ingest.sentry.io/42":            {"https://sentry.io/api/0", "123"},
		"http://k@O123.ingest.sentry.io.:8080/42":       {"https://sentry.io/api/0", "123"},
		"https://k@o1.ingest.de.sentry.io/42":           {"https://de.sentry.io/api/0", "1"},
		"https://k@o1.ingest.us.sentry.io/42":           {"https://us.sentry.io/api/0", "1"},
		"https://k@sentry.io/42":                        {"https://sentry.io/api/0", ""},
		"https://k@sentry.test:8443/a/42":               {"https://sentry.test:8443/a/api/0", ""},
		"http://k@sentry.test/42":                       {"http://sentry.test/api/0", ""},
		"https://k@o1.ingest.sentry.io.evil.test/42":    {"https://o1.ingest.sentry.io.evil.test/api/0", ""},
		"https://k@o1.ingest.evil.test/sentry.io/42":    {"https://o1.ingest.evil.test/sentry.io/api/0", ""},
		"https://k@o1.ingest.a.b.sentry.io/42":          {"https://o1.ingest.a.b.sentry.io/api/0", ""},
		"https://k@xo1.ingest.sentry.io/42":             {"https://xo1.ingest.sentry.io/api/0", ""},
		"https://o1.ingest.sentry.io@elsewhere.test/42": {"https://elsewhere.test/api/0", ""},
	} {
		d, err := parseDSN(in)
		if err != nil {
			t.Fatal(err)
		}
		root, organization := d.api()
		if got := [2]string{root.String(), organization}; got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// Fails when a token is accepted for a project that the API cannot name.
func TestATokenNeedsAProjectsNumber(t *testing.T) {
	cfg := provider.Config{Address: "https://k@sentry.test/web"}
	if _, err := New(cfg); err != nil {
		t.Errorf("without a token: %v", err)
	}
	cfg.Token = token
	if _, err := New(cfg); !errors.Is(err, errDSN) {
		t.Errorf("got %v", err)
	}
}

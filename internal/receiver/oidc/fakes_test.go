package oidc

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"notifier/internal/receiver/oidc/oidctest"
)

const issuerURL = "https://issuer.test"

func newIssuers(tb testing.TB, transport http.RoundTripper, google string) *Issuers {
	tb.Helper()
	client := func(string) *http.Client { return &http.Client{Transport: transport} }
	s, err := New(Options{Client: client, Google: google})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// receiver accepts the tokens of some issuers for one namespace.
type receiver struct {
	issuers   *Issuers
	namespace string
	urls      []string
}

// tokensOf accepts the tokens of issuers for a Receiver of a namespace.
func tokensOf(_ testing.TB, issuers *Issuers, namespace string, urls ...string) receiver {
	return receiver{issuers, namespace, urls}
}

// oidcVerifier accepts the issuer's tokens.
func oidcVerifier(tb testing.TB, issuers *Issuers, url string) receiver {
	tb.Helper()
	return tokensOf(tb, issuers, "", url)
}

// verify verifies the token of a request for a receiver.
func verify(v receiver, h http.Header, _ string) error {
	token, err := Token(h)
	if err != nil {
		return err
	}
	issuer, err := ClaimedIssuer(token)
	if err != nil {
		return err
	}
	if !slices.Contains(v.urls, issuer) {
		return RefusedIssuer
	}
	_, err = v.issuers.Verify(context.Background(), token, Demand{Namespace: v.namespace, Issuer: issuer, Audience: oidctest.Audience})
	return err
}

// elapse lets time pass on the clock of a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }

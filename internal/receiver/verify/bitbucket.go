package verify

import (
	"context"
	"net/http"
	"strings"
)

// bitbucket serves Bitbucket Cloud and Bitbucket Data Center, which sign as GitHub does.
type bitbucket struct{ macs *macs }

func newBitbucket(c Credentials) (Verifier, error) { return bitbucket{newMACs(c.Token)}, nil }

func (bitbucket) Type() string { return "bitbucket" }

// Begin checks the signature, if there is one. It accepts one kind of request without a proof: the test connection of
// Bitbucket Data Center. That request is unsigned even where a secret is set, and a refusal would show a working webhook
// as broken. To accept it is safe. Event calls it a ping by the same header, so it triggers nothing. It only shows that
// the path is served, as a refusal does.
func (b bitbucket) Begin(_ context.Context, h http.Header) (Check, error) {
	signature := hubSignature(h)
	switch {
	case signature == "" && bitbucketPing(h):
		return accepted{}, nil
	case !hubContentType(h.Get("Content-Type")):
		return nil, refusedContentType
	}
	return b.macs.begin(signature)
}

// Event names no delivery for an unsigned ping: anybody may send that ID, and Bitbucket may use the same ID later.
func (bitbucket) Event(h http.Header) Event {
	e := Event{Name: h.Get("X-Event-Key"), Selects: true, Ping: bitbucketPing(h)}
	if hubSignature(h) != "" {
		e.Delivery = first(h, "X-Request-UUID", "X-Request-Id")
	}
	return e
}

func (bitbucket) Document(h http.Header, body []byte) []byte { return hubDocument(h, body) }

func bitbucketPing(h http.Header) bool {
	return strings.EqualFold(h.Get("X-Event-Key"), "diagnostics:ping")
}

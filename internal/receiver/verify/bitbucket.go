package verify

import (
	"context"
	"net/http"
	"strings"

	"notifier/internal/receiver/answer"
)

// newBitbucket serves Bitbucket Cloud and Bitbucket Data Center, which sign as GitHub does.
func newBitbucket(c Credentials) (scheme, error) {
	macs := newMACs(c.Token)
	return scheme{event: bitbucketEvent, document: hubDocument, begin: func(_ context.Context, h http.Header) (Check, error) {
		signature := hubSignature(h)
		switch {
		case signature == "" && bitbucketPing(h):
			return nil, UnsignedPing
		case !hubContentType(h.Get("Content-Type")):
			return nil, refusedContentType
		}
		return macs.begin(signature)
	}}, nil
}

// UnsignedPing is the refusal of the test connection of Bitbucket Data Center, which is unsigned even where a secret is set. It proves
// nothing, and is answered as a ping: a refusal would show a working webhook as broken.
const UnsignedPing answer.Refusal = "test of the connection without a signature"

func bitbucketEvent(h http.Header) Event {
	return Event{
		Name: h.Get("X-Event-Key"), Selects: true, Ping: bitbucketPing(h), Delivery: first(h, "X-Request-UUID", "X-Request-Id"),
	}
}

func bitbucketPing(h http.Header) bool {
	return strings.EqualFold(h.Get("X-Event-Key"), "diagnostics:ping")
}

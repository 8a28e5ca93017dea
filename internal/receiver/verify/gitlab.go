package verify

import (
	"bytes"
	"context"
	"net/http"
)

// newGitLab serves GitLab hooks with a secret token, which GitLab sends unchanged. It also checks signatures if the token
// can be GitLab's newer signing token. Any other token with that prefix is a secret token that an owner chose, and is
// checked as such.
func newGitLab(c Credentials) (scheme, error) {
	begin := newTokenDigest(c.Token).in("X-Gitlab-Token")
	if bytes.HasPrefix(c.Token, []byte(signingPrefix)) { // a secret token may be base64 too
		if standard, err := newStandard(c.Token); err == nil {
			return scheme{begin: signedGitLab(begin, standard), event: gitlabEvent, parse: parseSignedGitLab}, nil
		}
	}
	return scheme{begin: begin, event: gitlabEvent}, nil
}

func gitlabEvent(h http.Header) Event {
	return Event{
		Name: h.Get("X-Gitlab-Event"), Selects: true,
		Delivery: first(h, "Idempotency-Key", "X-Gitlab-Event-UUID", "Webhook-Id"),
	}
}

// signedGitLab serves GitLab hooks with a signing token, which GitLab keeps to itself and signs with.
//
// If a signature is present, it decides, and other headers do not count. A request without a signature may carry the whole
// token in X-Gitlab-Token. That proof is no weaker, since the sender could have signed with it. So a Receiver whose
// secret token only looks like a signing token goes on working. A secret token that is set in GitLab beside the signing
// token proves nothing.
func signedGitLab(unsigned begin, signed begin) begin {
	return func(ctx context.Context, h http.Header) (Check, error) {
		if h.Get("Webhook-Signature") == "" && h.Get("X-Gitlab-Token") != "" {
			return unsigned(ctx, h)
		}
		return signed(ctx, h)
	}
}

// parseSignedGitLab has the body kept, since the signature needs the whole.
func parseSignedGitLab(h http.Header, body []byte) (Content, error) {
	return Content{Event: gitlabEvent(h), Document: jsonDocument(h, body)}, nil
}

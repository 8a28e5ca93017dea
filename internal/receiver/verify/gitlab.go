package verify

import (
	"bytes"
	"context"
	"net/http"
)

// gitlab serves GitLab hooks with a secret token, which GitLab sends unchanged.
type gitlab struct{ token tokenDigest }

// newGitLab returns a verifier that also checks signatures if the token can be GitLab's newer signing token. Any other
// token with that prefix is a secret token that an owner chose, and is checked as such.
func newGitLab(c Credentials) (scheme, error) {
	plain := gitlab{newTokenDigest(c.Token)}
	if !bytes.HasPrefix(c.Token, []byte(signingPrefix)) {
		return plain, nil // of a secret token, base64 or not
	}
	if standard, err := newStandard(c.Token); err == nil {
		return signedGitLab{plain, standard}, nil
	}
	return plain, nil
}

func (g gitlab) Begin(_ context.Context, h http.Header) (Check, error) {
	return g.token.begin(h.Get("X-Gitlab-Token"))
}

func (gitlab) Event(h http.Header) Event {
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
type signedGitLab struct {
	gitlab
	standard standard
}

func (g signedGitLab) Begin(ctx context.Context, h http.Header) (Check, error) {
	if h.Get("Webhook-Signature") == "" && h.Get("X-Gitlab-Token") != "" {
		return g.gitlab.Begin(ctx, h)
	}
	return g.standard.begin(h)
}

// parse makes signedGitLab a parser, since the signature needs the whole body.
func (g signedGitLab) parse(h http.Header, body []byte) (Content, error) {
	return Content{Event: g.Event(h), Document: jsonDocument(h, body)}, nil
}

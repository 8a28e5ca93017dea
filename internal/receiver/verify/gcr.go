package verify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/oidc"
)

// The refusals of type gcr.
const (
	refusedEmail      answer.Refusal = "token is of another account"
	refusedUnverified answer.Refusal = "token's email is not verified"
	refusedData       answer.Refusal = "message data is not a registry's notification in base64"
)

// gcrKeys are the keys of the Secret beside the token: the account and the audience that Google's token must name.
var gcrKeys = []string{"email", "audience"}

// gcr serves the pushes of a Pub/Sub subscription, which authenticates with a token that Google signs for a service
// account.
type gcr struct {
	issuers   *oidc.Issuers
	namespace string
	email     tokenDigest
	audience  string
}

func newGCR(c Credentials) (scheme, error) {
	if c.Issuers == nil {
		return nil, oidc.ErrNone
	}
	for _, key := range gcrKeys {
		if len(c.Values[key]) == 0 {
			return nil, &MissingKeyError{Key: key}
		}
	}
	return gcr{
		issuers: c.Issuers, namespace: c.Namespace, email: newTokenDigest(c.Values["email"]), audience: string(c.Values["audience"]),
	}, nil
}

func (gcr) Event(http.Header) Event { return Event{} }

func (v gcr) Begin(ctx context.Context, h http.Header) (Check, error) {
	token, err := oidc.Token(h)
	if err != nil {
		return nil, err
	}
	google := v.issuers.Google()
	proven, err := v.issuers.Verify(ctx, token, oidc.Demand{Namespace: v.namespace, Issuer: google, Audience: v.audience, AnyIssuer: true})
	if err != nil {
		return nil, err
	}
	// Google leaves the scheme out of some of its tokens.
	if _, short, _ := strings.Cut(google, "://"); proven.Issuer != google && proven.Issuer != short {
		return nil, oidc.RefusedIssuer
	}
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	switch {
	case proven.Claims(&claims) != nil:
		return nil, oidc.RefusedBearer
	case !claims.Verified:
		return nil, refusedUnverified
	}
	// Google signs tokens for any audience for everybody with an account.
	if _, err := v.email.begin(claims.Email); err != nil {
		return nil, refusedEmail
	}
	return accepted{}, nil
}

// gcrImage is the registry's notification about an image, and the document for filters.
type gcrImage struct {
	Action string `json:"action"`
	Digest string `json:"digest"`
	Tag    string `json:"tag"`
}

func (gcr) parse(_ http.Header, body []byte) (Content, error) {
	var push struct {
		Message *struct {
			Data      string `json:"data"`
			MessageID string `json:"messageId"`
		} `json:"message"`
	}
	if err := decodeJSON(body, &push); err != nil {
		return Content{}, err
	}
	if push.Message == nil || push.Message.Data == "" {
		return Content{}, refusedField
	}
	data, err := base64.StdEncoding.DecodeString(push.Message.Data)
	if err != nil {
		return Content{}, refusedData
	}
	var image gcrImage
	if decodeJSON(data, &image) != nil || image.Action == "" {
		return Content{}, refusedData
	}
	document, err := json.Marshal(image)
	if err != nil {
		return Content{}, refusedData
	}
	return Content{Event: Event{Delivery: push.Message.MessageID}, Document: document}, nil
}

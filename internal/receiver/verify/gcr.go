package verify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

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

// newGCR serves the pushes of a Pub/Sub subscription, which authenticates with a token that Google signs for a service
// account.
func newGCR(c Credentials) (scheme, error) {
	if c.Issuers == nil {
		return scheme{}, oidc.ErrNone
	}
	for _, key := range gcrKeys {
		if len(c.Values[key]) == 0 {
			return scheme{}, &MissingKeyError{Key: key}
		}
	}
	google, email := c.Issuers.Google(), newTokenDigest(c.Values["email"])
	demand := oidc.Demand{Namespace: c.Namespace, Issuer: google, Audience: string(c.Values["audience"]), AnyIssuer: true}
	return scheme{parse: parseGCR, begin: func(ctx context.Context, h http.Header) (Check, error) {
		token, err := oidc.Token(h)
		if err != nil {
			return nil, err
		}
		proven, err := c.Issuers.Verify(ctx, token, demand)
		if err != nil {
			return nil, err
		}
		if err := checkGoogle(proven, google, email); err != nil {
			return nil, err
		}
		return accepted{}, nil
	}}, nil
}

// checkGoogle returns the Refusal of a token that Google did not issue for the account with this email.
func checkGoogle(proven *gooidc.IDToken, google string, email tokenDigest) error {
	// Google leaves the scheme out of some of its tokens.
	if _, short, _ := strings.Cut(google, "://"); proven.Issuer != google && proven.Issuer != short {
		return oidc.RefusedIssuer
	}
	var claims map[string]json.RawMessage // a struct would take "Email" for "email"
	if proven.Claims(&claims) != nil {
		return oidc.RefusedBearer
	}
	address, verified := "", false
	for name, value := range map[string]any{"email": &address, "email_verified": &verified} {
		if raw, there := claims[name]; there && json.Unmarshal(raw, value) != nil {
			return oidc.RefusedBearer
		}
	}
	if !verified {
		return refusedUnverified
	}
	// Google signs tokens for any audience for everybody with an account.
	if _, err := email.begin(address); err != nil {
		return refusedEmail
	}
	return nil
}

// gcrImage is the registry's notification about an image, and the document for filters.
type gcrImage struct {
	Action string `json:"action"`
	Digest string `json:"digest"`
	Tag    string `json:"tag"`
}

func parseGCR(_ http.Header, body []byte) (Content, error) {
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

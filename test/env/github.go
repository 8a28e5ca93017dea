package env

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
)

// GitHubPush is the body of the pushes that tests send.
const GitHubPush = `{"ref":"refs/heads/main","repository":{"full_name":"team/app"}}`

// GitHub sends a webhook as GitHub signs it.
func (n *Notifier) GitHub(ctx context.Context, path, token, event, body string) (Response, error) {
	return n.Do(ctx, http.MethodPost, n.HooksURL+path, GitHubHeader(token, event, body), []byte(body))
}

// GitHubHeader returns the headers of a webhook as GitHub signs it.
func GitHubHeader(token, event, body string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("X-GitHub-Event", event)
	h.Set("X-Hub-Signature-256", "sha256="+Sign(token, body))
	return h
}

// Sign returns the hex HMAC-SHA256 of body.
func Sign(token, body string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// GitHubSpec returns the spec of a Receiver of type github whose token is in the Secret "<name>-token" and whose target
// is the GitRepository. fields is added to it, each field with a leading comma.
func GitHubSpec(name, repository, fields string) string {
	return fmt.Sprintf(`{"type":"github","secretRef":{"name":%q},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":%q}]%s}`, name+"-token", repository, fields)
}

// GitHubReceiver writes the GitRepository and a Receiver with a Secret of its own, whose spec is [GitHubSpec]. It waits
// until the Receiver is ready and returns its path.
func (t *Tenant) GitHubReceiver(ctx context.Context, name, repository, token, fields string) (string, error) {
	if err := t.Object(ctx, "GitRepository", repository, nil, ""); err != nil {
		return "", err
	}
	return t.Receiver(ctx, name, token, GitHubSpec(name, repository, fields))
}

package sender

import (
	"crypto/sha1" // senders still sign with it
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"maps"
	"net/url"
)

// hashes are the algorithms by their names in signatures.
var hashes = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// The bodies that Git hosts send, reduced to the relevant fields.
const (
	GitHubPush    = `{"ref":"refs/heads/main","before":"6113728f","after":"59b20b8d","repository":{"id":186853002,"name":"app","full_name":"team/app"},"pusher":{"name":"dev"}}`
	GitHubPing    = `{"zen":"Keep it logically awesome.","hook_id":109948940,"hook":{"type":"Repository","events":["push"]}}`
	GiteaPush     = `{"ref":"refs/heads/main","before":"28e1879d","after":"bffeb746","repository":{"id":140,"full_name":"team/app"},"pusher":{"login":"dev"}}`
	GitLabPush    = `{"object_kind":"push","event_name":"push","ref":"refs/heads/main","project_id":15,"project":{"path_with_namespace":"team/app"}}`
	BitbucketPush = `{"push":{"changes":[{"new":{"type":"branch","name":"main"}}]},"repository":{"full_name":"team/app"},"actor":{"nickname":"dev"}}`
)

// GitHub signs the body with both algorithms, the older one for servers that know only that.
func GitHub(token, event, body string) Webhook {
	return webhook(body,
		"User-Agent", "GitHub-Hookshot/044aadd", "X-GitHub-Event", event, "X-GitHub-Delivery", delivery(), "X-GitHub-Hook-ID", "292430182",
		"X-Hub-Signature", "sha1="+sign(sha1.New, token, body), "X-Hub-Signature-256", "sha256="+sign(sha256.New, token, body))
}

// GitHubForm is GitHub's other content type: the JSON is a field of a form, and the form is signed.
func GitHubForm(token, event, payload string) Webhook {
	w := GitHub(token, event, url.Values{"payload": {payload}}.Encode())
	return w.With("Content-Type", "application/x-www-form-urlencoded")
}

// Gitea sends each header under its own name and those of its forks.
func Gitea(token, event, body string) Webhook {
	signature, id := sign(sha256.New, token, body), delivery()
	return webhook(body,
		"X-Gitea-Delivery", id, "X-Gitea-Event", event, "X-Gitea-Event-Type", event, "X-Gitea-Signature", signature,
		"X-Gogs-Delivery", id, "X-Gogs-Event", event, "X-Gogs-Signature", signature,
		"X-GitHub-Delivery", id, "X-GitHub-Event", event,
		"X-Hub-Signature", "sha1="+sign(sha1.New, token, body), "X-Hub-Signature-256", "sha256="+signature)
}

// GitLab sends its secret token unchanged.
func GitLab(token, event, body string) Webhook {
	id := delivery()
	return webhook(body, "User-Agent", "GitLab/18.6.0", "X-Gitlab-Event", event, "X-Gitlab-Token", token,
		"X-Gitlab-Webhook-UUID", delivery(), "X-Gitlab-Event-UUID", id, "Idempotency-Key", id, "X-Gitlab-Instance", "https://gitlab.com")
}

// GitLabSigned signs as GitLab does with a signing token, and sends no secret token.
func GitLabSigned(token, event, body string) Webhook {
	w := StandardWebhooks(token, body)
	maps.Copy(w.Header, GitLab("", event, body).With("X-Gitlab-Token", "").Header)
	return w
}

// Bitbucket signs as Bitbucket Cloud and Bitbucket Data Center do.
func Bitbucket(token, event, body string) Webhook {
	return webhook(body, "User-Agent", "Bitbucket-Webhooks/2.0", "X-Event-Key", event, "X-Request-UUID", delivery(), "X-Hook-UUID", delivery(),
		"X-Attempt-Number", "1", "X-Hub-Signature", "sha256="+sign(sha256.New, token, body))
}

// BitbucketTest returns the test connection of Bitbucket Data Center, which is never signed.
func BitbucketTest() Webhook {
	return webhook(`{"test":true}`, "X-Event-Key", "diagnostics:ping", "X-Request-Id", delivery())
}

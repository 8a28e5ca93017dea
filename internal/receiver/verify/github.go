package verify

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"strings"
)

// newGitHub serves GitHub, and Gitea and Forgejo, which sign alike. Their own headers count where GitHub's are absent.
func newGitHub(c Credentials) (scheme, error) {
	macs := newMACs(c.Token)
	return scheme{event: githubEvent, document: hubDocument, begin: func(_ context.Context, h http.Header) (Check, error) {
		if !hubContentType(h.Get("Content-Type")) {
			return nil, refusedContentType
		}
		if signature := hubSignature(h); signature != "" {
			return macs.begin(signature)
		}
		return macs.beginHex(macSHA256, first(h, giteaSignatures...))
	}}, nil
}

func githubEvent(h http.Header) Event {
	name := cmp.Or(h.Get("X-GitHub-Event"), first(h, giteaEvents...))
	return Event{
		Name: name, Selects: true, Ping: strings.EqualFold(name, "ping"),
		Delivery: cmp.Or(h.Get("X-GitHub-Delivery"), first(h, giteaDeliveries...)),
	}
}

// hubSignature returns the signature in GitHub's headers, which other senders use too. The second header counts only if
// the first is absent, so it cannot make up for a bad signature in the first.
func hubSignature(h http.Header) string { return first(h, "X-Hub-Signature-256", "X-Hub-Signature") }

// formType is the content type of a form. GitHub puts the JSON into its field "payload" and signs the whole form.
const formType = "application/x-www-form-urlencoded"

// hubContentType reports whether the body has one of GitHub's two forms, JSON or a form. Both are signed as raw bytes.
func hubContentType(value string) bool {
	if value == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(value)
	return err == nil && (media == "application/json" || media == formType)
}

// hubDocument returns the JSON in a body of either form.
func hubDocument(h http.Header, body []byte) []byte {
	if media, _, _ := mime.ParseMediaType(h.Get("Content-Type")); media == formType {
		return formField(body, "payload")
	}
	return jsonDocument(h, body)
}

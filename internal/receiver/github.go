package receiver

import (
	"context"
	"mime"
	"net/http"
	"strings"
)

// github serves GitHub, and Gitea and Forgejo, which sign alike.
type github struct{ macs *macs }

func newGitHub(c Credentials) (Verifier, error) { return github{newMACs(c.Token)}, nil }

func (github) Type() string { return "github" }

func (g github) Begin(_ context.Context, h http.Header) (Check, error) {
	if !githubContentType(h.Get("Content-Type")) {
		return nil, refusedContentType
	}
	signature := h.Get("X-Hub-Signature-256")
	if signature == "" {
		signature = h.Get("X-Hub-Signature")
	}
	return g.macs.begin(signature)
}

func (github) Event(h http.Header) Event {
	name := h.Get("X-GitHub-Event")
	return Event{Name: name, Selects: true, Ping: strings.EqualFold(name, "ping"), Delivery: h.Get("X-GitHub-Delivery")}
}

// githubContentType reports whether the body has one of the two forms in which GitHub sends. Both are signed as raw bytes.
func githubContentType(value string) bool {
	if value == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(value)
	return err == nil && (media == "application/json" || media == "application/x-www-form-urlencoded")
}

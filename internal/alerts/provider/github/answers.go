package github

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
)

// known are the messages of GitHub's API that may be shown.
var known = []string{
	"Bad credentials", "Not Found", "Validation Failed", "Requires authentication", "Forbidden", "Problems parsing JSON",
	"Resource not accessible by integration", "Resource not accessible by personal access token",
	"Must have admin rights to Repository.", "Repository was archived so is read-only.", "Repository access blocked",
	"Resource protected by organization SAML enforcement. You must grant your Personal Access token access to this organization.",
	"Unable to create comment because issue is locked.", "Integration not found", "Integration must generate a public key",
	"A JSON web token could not be decoded", "This installation has been suspended",
}

// mostStatuses is GitHub's answer when a commit has a thousand statuses of one name.
const mostStatuses = "This SHA and context has reached the maximum number of statuses."

// fourBytes is a part of GitHub's answer to the status of a name, or a description, with emoji.
const fourBytes = "doesn't accept 4-byte Unicode"

// word returns the part of a refusal's answer that is shown.
func word(answer []byte) string {
	var reply struct {
		Message string          `json:"message"`
		Errors  json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(answer, &reply) != nil {
		return ""
	}
	switch {
	case strings.HasPrefix(reply.Message, "No commit found for SHA"):
		return "No commit found for SHA"
	case bytes.Contains(reply.Errors, []byte(mostStatuses)):
		return mostStatuses
	case bytes.Contains(reply.Errors, []byte(fourBytes)):
		return fourBytes
	default:
		return provider.KnownWord(known, reply.Message)
	}
}

// secondaryWait is the least time that GitHub asks to wait if its answer names none.
const secondaryWait = time.Minute

// wait reads GitHub's limits: no requests left until a time, or too many at once.
func wait(status int, header http.Header, answer []byte) (time.Duration, bool) {
	if status != http.StatusForbidden && status != http.StatusTooManyRequests {
		return 0, false
	}
	if after := header.Get("Retry-After"); after != "" {
		return provider.ParseRetryAfter(after, time.Now()), true
	}
	if header.Get("X-Ratelimit-Remaining") == "0" {
		at, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64)
		if err != nil {
			return secondaryWait, true
		}
		return max(time.Until(time.Unix(at, 0)), time.Second), true
	}
	if bytes.Contains(answer, []byte("secondary rate limit")) {
		return secondaryWait, true
	}
	return 0, false
}

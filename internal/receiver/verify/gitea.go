package verify

import (
	"context"
	"net/http"
	"strings"
)

var (
	giteaSignatures = []string{"X-Forgejo-Signature", "X-Gitea-Signature", "X-Gogs-Signature"}
	giteaEvents     = []string{"X-Forgejo-Event", "X-Gitea-Event", "X-Gogs-Event"}
	giteaDeliveries = []string{"X-Forgejo-Delivery", "X-Gitea-Delivery", "X-Gogs-Delivery"}
)

// newGitea serves Gitea, Forgejo and Gogs. Each sends the same values under the header names of all of them. A test
// delivery is a push like any other and triggers. Forms are refused: unlike GitHub, Gitea signs the JSON in the form, not
// the body that it sends.
func newGitea(c Credentials) (scheme, error) {
	macs := newMACs(c.Token)
	return scheme{event: giteaEvent, begin: func(_ context.Context, h http.Header) (Check, error) {
		if !isJSON(h.Get("Content-Type")) {
			return nil, refusedContentType
		}
		if digits := first(h, giteaSignatures...); digits != "" {
			return macs.beginHex(macSHA256, digits)
		}
		signature := h.Get("X-Hub-Signature-256")
		digits, found := strings.CutPrefix(signature, "sha256=")
		if signature != "" && !found {
			return nil, refusedAlgorithm
		}
		return macs.beginHex(macSHA256, digits) // a Gitea without a secret sends the prefix alone
	}}, nil
}

func giteaEvent(h http.Header) Event {
	name := first(h, giteaEvents...)
	return Event{
		Name: name, Selects: true, Ping: strings.EqualFold(name, "ping"),
		Delivery: first(h, giteaDeliveries...),
	}
}

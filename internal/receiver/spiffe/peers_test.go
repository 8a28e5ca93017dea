package spiffe

import (
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// T5. Fails when an ID is taken for a peer that its flag does not mean, as one whose path only begins with the peer's.
func TestT5PeersAreTheIDsThatTheirFlagMeans(t *testing.T) {
	const own = "example.org"
	for peer, ids := range map[string]struct{ in, out string }{
		"spiffe://example.org/ns/flux":  {"spiffe://example.org/ns/flux", "spiffe://example.org/ns/flux-2 spiffe://example.org/ns/flux/sa spiffe://example.org spiffe://example.com/ns/flux"},
		"spiffe://example.org/ns/flux/": {"spiffe://example.org/ns/flux/sa spiffe://example.org/ns/flux/sa/x", "spiffe://example.org/ns/flux spiffe://example.org/ns/flux-2/sa spiffe://example.com/ns/flux/sa"},
		"spiffe://example.org":          {"spiffe://example.org spiffe://example.org/a/b", "spiffe://example.com spiffe://example.org.example.com/a"},
		"spiffe://other":                {"spiffe://other/a", "spiffe://example.org/a"},
		"spiffe://self":                 {"spiffe://example.org/a", "spiffe://self/a spiffe://other/a"},
		"spiffe://self/a":               {"spiffe://example.org/a", "spiffe://example.org/b spiffe://self/a"},
		"spiffe://self/a/":              {"spiffe://example.org/a/b", "spiffe://example.org/a spiffe://self/a/b"},
	} {
		peers, err := ParsePeers([]string{"spiffe://nobody/here", peer})
		if err != nil {
			t.Errorf("%s: %v", peer, err)
			continue
		}
		for want, ids := range map[bool]string{true: ids.in, false: ids.out} {
			for id := range strings.FieldsSeq(ids) {
				if got := peers.include(spiffeid.RequireFromString(id), spiffeid.RequireTrustDomainFromString(own)); got != want {
					t.Errorf("%s: %s is one of them: %t, want %t", peer, id, got, want)
				}
			}
		}
	}
	if (Peers{}).include(spiffeid.RequireFromString("spiffe://example.org/a"), spiffeid.RequireTrustDomainFromString(own)) {
		t.Error("nobody is named, and a peer may connect")
	}
}

// Fails when a flag with a typing error is accepted, which would admit other peers than meant, or none.
func TestPeersThatAreNoIDsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "/", "spiffe://", "spiffe:///a", "example.org/a", "https://example.org/a", "spiffe://Example.org/a", "spiffe://example.org/",
		"spiffe://example.org//", "spiffe://example.org/a//", "spiffe://example.org/a//b", "spiffe://example.org/../a",
		"spiffe://example.org/*", "spiffe://example.org/a?b", "spiffe://example.org:80/a", "spiffe://u@example.org/a", " spiffe://example.org/a",
	} {
		if peers, err := ParsePeers([]string{"spiffe://example.org/b", text}); err == nil {
			t.Errorf("%q is %+v", text, peers)
		} else if !strings.Contains(err.Error(), `"`) {
			t.Errorf("%q: the error does not quote it: %v", text, err)
		}
	}
}

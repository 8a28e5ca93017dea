package verify

import (
	"crypto/sha1"
	"net/http"
	"testing"
)

// Fails when a request passes without a proof, or when an unsigned ping is refused like any other.
func TestBitbucketRequiresAValidSignature(t *testing.T) {
	good := sign(token, attemptBody)
	try(t, "bitbucket", map[string]attempt{
		"sha256":                    {header("X-Event-Key", "repo:push", "X-Hub-Signature", good), nil},
		"sha1 of an old server":     {header("X-Hub-Signature", signWith("sha1", sha1.New, token, attemptBody)), nil},
		"a parameter":               {header("X-Hub-Signature", good, "Content-Type", "application/json; charset=utf-8"), nil},
		"a signed ping":             {header("X-Event-Key", "diagnostics:ping", "X-Hub-Signature", good), nil},
		"a ping without signature":  {header("X-Event-Key", "diagnostics:ping"), UnsignedPing},
		"that ping, of no type":     {http.Header{"X-Event-Key": {"Diagnostics:Ping"}}, UnsignedPing},
		"a ping that is not by us":  {header("X-Event-Key", "diagnostics:ping", "X-Hub-Signature", sign("other", attemptBody)), refusedMismatch},
		"a push without signature":  {header("X-Event-Key", "repo:push"), refusedNoSignature},
		"no event and no signature": {header(), refusedNoSignature},
		"a longer name":             {header("X-Event-Key", "diagnostics:ping2"), refusedNoSignature},
		"another token's":           {header("X-Hub-Signature", sign("other", attemptBody)), refusedMismatch},
		"the empty token's":         {header("X-Hub-Signature", sign("", attemptBody)), refusedMismatch},
		"Gitea's header":            {header("X-Gitea-Signature", good[7:]), refusedNoSignature},
		"another content type":      {header("X-Hub-Signature", good, "Content-Type", "text/plain"), refusedContentType},
	})
}

func TestBitbucketReadsEventAndDelivery(t *testing.T) {
	reads(t, "bitbucket", map[string]struct {
		header http.Header
		want   Event
	}{
		"of the Cloud": {
			header("X-Event-Key", "repo:push", "X-Request-UUID", "1", "X-Request-Id", "2", "X-Hub-Signature", "s"),
			Event{Name: "repo:push", Selects: true, Delivery: "1"},
		},
		"of Data Center": {
			header("X-Event-Key", "repo:refs_changed", "X-Request-Id", "2", "X-Hub-Signature", "s"),
			Event{Name: "repo:refs_changed", Selects: true, Delivery: "2"},
		},
		"a signed ping": {
			header("X-Event-Key", "diagnostics:ping", "X-Request-Id", "2", "X-Hub-Signature-256", "s"),
			Event{Name: "diagnostics:ping", Selects: true, Ping: true, Delivery: "2"},
		},
	})
}

func FuzzBitbucket(f *testing.F) {
	names := []string{"X-Hub-Signature-256", "X-Hub-Signature"}
	fuzzVerifier(f, "bitbucket", names, hubSignatures(""), signedBy(names, hubSignatures))
}

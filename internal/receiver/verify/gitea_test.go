package verify

import (
	"crypto/sha1"
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
)

// Fails when a header is not read, when a good signature in one header makes up for a bad one in another, or when a
// weaker algorithm than Gitea's own passes.
func TestGiteaRequiresAValidSignature(t *testing.T) {
	good := hexMAC(sha256.New, token, attemptBody)
	bad := hexMAC(sha256.New, "other", attemptBody)
	try(t, "gitea", map[string]attempt{
		"Gitea's header":                 {header("X-Gitea-Signature", good), nil},
		"Forgejo's header":               {header("X-Forgejo-Signature", good), nil},
		"Gogs's header":                  {header("X-Gogs-Signature", good), nil},
		"GitHub's header":                {header("X-Hub-Signature-256", "sha256="+good), nil},
		"all of them":                    {header("X-Gitea-Signature", good, "X-Gogs-Signature", good, "X-Hub-Signature-256", "sha256="+good, "X-Hub-Signature", "sha1=0"), nil},
		"upper-case digits":              {header("X-Gitea-Signature", strings.ToUpper(good)), nil},
		"a parameter":                    {header("X-Gitea-Signature", good, "Content-Type", "application/json; charset=utf-8"), nil},
		"no signature":                   {header(), refusedNoSignature},
		"a Gitea without a secret":       {header("X-Gitea-Signature", "", "X-Gogs-Signature", "", "X-Hub-Signature-256", "sha256="), refusedNoSignature},
		"another token's":                {header("X-Gitea-Signature", bad), refusedMismatch},
		"the empty token's":              {header("X-Gitea-Signature", hexMAC(sha256.New, "", attemptBody)), refusedMismatch},
		"a bad one beside a good one":    {header("X-Forgejo-Signature", bad, "X-Gitea-Signature", good, "X-Hub-Signature-256", "sha256="+good), refusedMismatch},
		"with a prefix":                  {header("X-Gitea-Signature", "sha256="+good), refusedMalformed},
		"half of it":                     {header("X-Gitea-Signature", good[:32]), refusedMalformed},
		"what is not hex":                {header("X-Gitea-Signature", strings.Repeat("z", 64)), refusedMalformed},
		"GitHub's header, bare":          {header("X-Hub-Signature-256", good), refusedAlgorithm},
		"GitHub's header, sha1":          {header("X-Hub-Signature-256", signWith("sha1", sha1.New, token, attemptBody)), refusedAlgorithm},
		"GitHub's older header alone":    {header("X-Hub-Signature", signWith("sha1", sha1.New, token, attemptBody)), refusedNoSignature},
		"a form, which it signs in part": {header("X-Gitea-Signature", good, "Content-Type", formType), refusedContentType},
		"no content type":                {http.Header{"X-Gitea-Signature": {good}}, refusedContentType},
	})
}

func TestGiteaReadsEventAndDeliveryUnderEachName(t *testing.T) {
	cases := map[string]struct {
		header http.Header
		want   Event
	}{
		"a ping":        {header("X-Gitea-Event", "ping"), Event{Name: "ping", Selects: true, Ping: true}},
		"GitHub's name": {header("X-GitHub-Event", "push", "X-GitHub-Delivery", "1"), Event{Selects: true}},
	}
	for _, name := range []string{"Forgejo", "Gitea", "Gogs"} {
		cases[name] = struct {
			header http.Header
			want   Event
		}{
			header("X-"+name+"-Event", "push", "X-"+name+"-Event-Type", "push_x", "X-"+name+"-Delivery", name),
			Event{Name: "push", Selects: true, Delivery: name},
		}
	}
	reads(t, "gitea", cases)
}

func FuzzGitea(f *testing.F) {
	names := append([]string{"X-Hub-Signature-256"}, giteaSignatures...)
	signatures := func(body string) []string { return []string{hexMAC(sha256.New, token, body), sign(token, body)} }
	fuzzVerifier(f, "gitea", names, signatures(""), signedBy(names, signatures))
}

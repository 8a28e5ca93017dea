package provider

import (
	"strings"
	"testing"

	"notifier/internal/event"
)

const hash = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"

func TestACommitIsReadFromEveryFormOfARevision(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 4)
	for revision, want := range map[string]string{
		"main@sha1:" + hash:            hash,
		"feature/x@sha1:" + hash:       hash,
		"refs/tags/v1@sha256:" + long:  long,
		"sha1:" + hash:                 hash,
		"main/" + hash:                 hash,
		"feature/x/" + hash:            hash,
		hash:                           hash,
		strings.ToUpper(hash):          hash,
		"main@sha1:" + hash[:39]:       "",
		"main@sha1:" + hash + "0":      "",
		"main@sha1:" + hash[:39] + "g": "",
		"1.2.3+" + hash[:12]:           "",
		"main@sha1:":                   "",
		"../" + hash[:37] + "/..":      "",
	} {
		if got := Commit(with("revision", revision)); got != want {
			t.Errorf("%s: got %q, want %q", revision, got, want)
		}
	}
}

// Fails when the digest of an artifact is taken for a commit, or when a commit of Git's SHA-256 is not.
func TestTheDigestOfAnArtifactIsNoCommit(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	of := func(kind string, pairs ...string) Notification {
		n := with(pairs...)
		n.Event.InvolvedObject.Kind = kind
		return n
	}
	for name, row := range map[string]struct {
		n    Notification
		want string
	}{
		"a Bucket":                      {of("Bucket", "revision", "sha256:"+digest), ""},
		"an OCIRepository":              {of("OCIRepository", "revision", "latest@sha256:"+digest), ""},
		"what an OCIRepository has":     {of("Kustomization", "revision", "latest@sha256:"+digest), ""},
		"what a Bucket has":             {of("Kustomization", "revision", digest), ""},
		"an older OCIRepository":        {of("OCIRepository", "revision", "latest/"+digest), ""},
		"an artifact's origin":          {of("Kustomization", "originRevision", "main@sha256:"+digest, "revision", "latest@sha256:"+hash), digest},
		"a GitRepository":               {of("GitRepository", "revision", "main@sha256:"+digest), digest},
		"a commit of a GitRepository":   {of("GitRepository", "revision", "sha256:"+digest), digest},
		"a branch that no registry has": {of("Kustomization", "revision", "feature/x@sha256:"+digest), digest},
		"its older form":                {of("Kustomization", "revision", "feature/x/"+digest), digest},
		"a commit of the author":        {of("Kustomization", "commit", "sha256:"+digest), digest},
	} {
		if got := Commit(row.n); got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

// Fails when an artifact's revision takes precedence over the commit that it was made of, or when a commit that is no hash is skipped
// for a later key.
func TestTheCommitCountsBeforeTheOriginBeforeTheRevision(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	for _, row := range []struct {
		metadata map[string]string
		want     string
	}{
		{map[string]string{"commit": a, "originRevision": "main@sha1:" + b, "revision": "latest@sha256:" + c}, a},
		{map[string]string{"originRevision": "main@sha1:" + b, "revision": "main@sha1:" + c}, b},
		{map[string]string{"commit": "", "revision": "main@sha1:" + c}, c},
		{map[string]string{"commit": "main", "revision": "main@sha1:" + c}, ""},
		{nil, ""},
	} {
		if got := Commit(Notification{Event: event.Event{Metadata: row.metadata}}); got != row.want {
			t.Errorf("%v: got %q, want %q", row.metadata, got, row.want)
		}
	}
}

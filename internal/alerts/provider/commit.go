package provider

import "strings"

// revisionKey is the key of an event's metadata that has the revision of the artifact, without its prefix.
const revisionKey = "revision"

// commitKeys are the keys of an event's metadata that name its commit, the most specific first, without their prefixes (Flux's event
// API).
var commitKeys = []string{CommitKey, "originRevision", revisionKey}

// The lengths of commit hashes in hexadecimal digits, for Git's object formats sha1 and sha256.
const (
	SHA1Digits   = 40
	sha256Digits = 64
)

// Commit returns the hash of the notification's commit in lower case, or an empty string if it names none. It reads the first of the
// keys commit, originRevision and revision that has a value. The forms are those of Flux's revisions: "branch@sha1:hash",
// "sha1:hash", the older "branch/hash", and the hash alone. The digest of an artifact of a registry or a bucket is no commit.
func Commit(n Notification) string {
	for _, key := range commitKeys {
		revision := n.Event.Metadata[key]
		if revision == "" {
			continue
		}
		hash := commitOf(revision)
		if key == revisionKey && len(hash) == sha256Digits && !ofGit(n, revision) {
			return ""
		}
		return hash
	}
	return ""
}

// ofGit reports whether a revision that ends in 64 digits is one of Git for certain. "latest@sha256:digest" of an OCIRepository and
// "sha256:digest" of a Bucket have the same form. Events of what is made of them repeat it. A tag of a registry has no slash, unlike many
// references of Git.
func ofGit(n Notification, revision string) bool {
	reference := revision[:max(0, strings.LastIndexAny(revision, "@/"))]
	return n.Event.InvolvedObject.Kind == "GitRepository" || strings.Contains(reference, "/")
}

// commitOf returns the hash in a revision, or an empty string if there is none.
func commitOf(revision string) string {
	hash := revision[strings.LastIndexAny(revision, ":/")+1:]
	if len(hash) != SHA1Digits && len(hash) != sha256Digits {
		return ""
	}
	hash = strings.ToLower(hash)
	if strings.Trim(hash, "0123456789abcdef") != "" {
		return ""
	}
	return hash
}

package provider

import "strings"

// commitKeys are the keys of an event's metadata that name its commit, the most specific first, without their prefixes (Flux's event
// API).
var commitKeys = []string{CommitKey, "originRevision", "revision"}

// The lengths of commit hashes in hexadecimal digits, for Git's object formats sha1 and sha256.
const (
	sha1Digits   = 40
	sha256Digits = 64
)

// Commit returns the hash of the notification's commit in lower case, or an empty string if it names none. It reads the first of the
// keys commit, originRevision and revision that has a value. The forms are those of Flux's revisions: "branch@sha1:hash",
// "sha256:hash", the older "branch/hash", and the hash alone.
func Commit(n Notification) string {
	for _, key := range commitKeys {
		if revision := n.Event.Metadata[key]; revision != "" {
			return commitOf(revision)
		}
	}
	return ""
}

// commitOf returns the hash in a revision, or an empty string if there is none.
func commitOf(revision string) string {
	hash := revision[strings.LastIndexAny(revision, ":/")+1:]
	if len(hash) != sha1Digits && len(hash) != sha256Digits {
		return ""
	}
	hash = strings.ToLower(hash)
	if strings.Trim(hash, "0123456789abcdef") != "" {
		return ""
	}
	return hash
}

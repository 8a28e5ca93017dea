package provider

import "strings"

// Keys of an event's metadata that name the commit of the event, first the one that counts most, without their prefixes (Flux's event API).
var commitKeys = []string{CommitKey, "originRevision", "revision"}

// Lengths of commit hashes in hexadecimal digits: Git's object formats sha1 and sha256.
const (
	sha1Digits   = 40
	sha256Digits = 64
)

// Commit returns the hash of the commit that a notification is about, in lower case, or nothing where it names none: what stands under the
// first of the keys commit, originRevision and revision that is there. The forms are those of Flux's revisions: "branch@sha1:hash",
// "sha256:hash", the older "branch/hash", and the hash alone.
func Commit(n Notification) string {
	for _, key := range commitKeys {
		if revision := n.Event.Metadata[key]; revision != "" {
			return commitOf(revision)
		}
	}
	return ""
}

// commitOf returns the hash in a revision, nothing where there is none.
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

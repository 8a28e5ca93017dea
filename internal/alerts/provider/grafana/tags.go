package grafana

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
)

const (
	maxTags = 500 // bytes of all tags as Grafana counts them, unless its tags_length allows more
	maxPart = 90  // bytes of a tag's key or value; the database stores 100 characters
	// failureTag marks the region of a failure.
	failureTag = "severity: error"
)

// reserved are the keys of tags that metadata does not replace.
var reserved = []string{"flux", "kind", "name", "namespace", "severity"}

// identity returns the tags that all annotations of an object have in common.
func identity(n provider.Notification) []string {
	o := n.Event.InvolvedObject
	return []string{"flux", "kind: " + part(o.Kind), "name: " + part(o.Name), "namespace: " + part(o.Namespace)}
}

// tagsOf returns the tags of the event's annotation, as many of them as fit.
func tagsOf(n provider.Notification) []string {
	all := identity(n)
	if provider.Failed(n) {
		all = append(all, failureTag)
	}
	if controller := part(provider.Truncate(n.Event.ReportingController, maxPart)); controller != "" {
		all = append(all, controller)
	}
	length := 1
	for _, tag := range all {
		length += len(tag) + len(`"",`)
	}
	for _, f := range provider.Facts(n, maxPart) {
		key, value := part(f.Name), part(f.Value)
		tag := key + ": " + value
		if key == "" || value == "" || slices.Contains(reserved, key) || length+len(tag)+len(`"",`) > maxTags {
			continue
		}
		all = append(all, tag)
		length += len(tag) + len(`"",`)
	}
	return all
}

// part returns text as a key or a value of a tag. It replaces colons, since Grafana splits a tag at a colon and trims the parts. A
// text that is too long is cut and ends in a digest of the whole.
func part(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(provider.ReplaceControls(strings.ToValidUTF8(s, "\uFFFD")), ":", "|"))
	if len(s) <= maxPart {
		return s
	}
	digest := sha256.Sum256([]byte(s))
	end := "… " + hex.EncodeToString(digest[:4])
	return strings.ToValidUTF8(s[:maxPart-len(end)], "") + end
}

// hasTags reports whether tags, as Grafana returns them, include all the wanted ones. There may be hundreds of thousands of tags.
func hasTags(tags, wanted []string) bool {
	missing := make(map[string]bool, len(wanted))
	for _, tag := range wanted {
		missing[plain(tag)] = true
	}
	for _, tag := range tags {
		if delete(missing, plain(tag)); len(missing) == 0 {
			break
		}
	}
	return len(missing) == 0
}

// plain returns a tag as Grafana stores it, without the space behind the colon.
func plain(tag string) string {
	key, value, _ := strings.Cut(tag, ":")
	return strings.TrimSpace(key) + ":" + strings.TrimSpace(value)
}

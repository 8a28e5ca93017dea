package alerts

import (
	"maps"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// summaryKey is the metadata key of an Alert's summary.
const summaryKey = "summary"

// mergeMetadata returns the metadata of an event for an Alert's Provider. It merges, from low to high precedence: the object's annotations,
// the Alert's own metadata, its summary, and the controller's metadata under its API group. It drops the rest of the event's metadata.
// authored are the keys that the Alert's author wrote, and conflicts the keys on which two sources disagreed, both sorted.
func mergeMetadata(e event.Event, a *Alert) (merged map[string]string, authored, conflicts []string) {
	merged = make(map[string]string, len(e.Metadata)+len(a.metadata)+1)
	var own map[string]bool
	if len(a.metadata) > 0 || a.summary != "" {
		own = make(map[string]bool, len(a.metadata)+1)
	}
	var disagreed map[string]struct{} // there may be a thousand
	set := func(k, v string) {
		if old, taken := merged[k]; taken && old != v {
			if disagreed == nil {
				disagreed = map[string]struct{}{}
			}
			disagreed[k] = struct{}{}
		}
		merged[k] = v
	}
	for k, v := range e.Metadata {
		if rest, ok := strings.CutPrefix(k, event.MetadataPrefix); ok && rest != "" {
			merged[rest] = v
		}
	}
	for k, v := range a.metadata {
		set(k, v)
		own[k] = true
	}
	if a.summary != "" {
		set(summaryKey, a.summary)
		own[summaryKey] = true
	}
	prefix := e.InvolvedObject.Group() + "/"
	for k, v := range e.Metadata {
		if rest, ok := strings.CutPrefix(k, prefix); ok && rest != "" && !event.IsInternalKey(rest) {
			set(rest, v)
			delete(own, rest)
		}
	}
	return merged, slices.Sorted(maps.Keys(own)), slices.Sorted(maps.Keys(disagreed))
}

// annotated returns those keys of the Alert's author that are annotations of the event's object as well, and by which a Git host is sent an
// event. For such a key the author replaces the value, but the object has decided that the host is sent the event.
func annotated(e event.Event, authored []string) (keys []string) {
	for _, key := range []string{provider.ChangeRequestKey, provider.CommitKey} {
		if e.Metadata[event.MetadataPrefix+key] != "" && slices.Contains(authored, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

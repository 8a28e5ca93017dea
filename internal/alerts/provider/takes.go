package provider

import (
	"maps"
	"slices"
	"strings"

	"notifier/internal/event"
)

// The keys of an event's metadata that decide which types take the event, without their prefixes (Flux's event API).
const (
	CommitKey        = "commit"         // the commit that an object's owner ties the event to
	CommitStatusKey  = "commit_status"  // "update" where only a commit's status is to change
	ChangeRequestKey = "change_request" // the number of a pull or merge request

	commitStatusUpdate = "update"
)

// reasonProgressing is the reason of events about work that has begun and not ended.
const reasonProgressing = "Progressing"

// Takes reports whether a type takes a notification. A notification that the type does not take is neither kept nor counted as lost.
type Takes func(n Notification) bool

// Lacks returns what a notification that a type does not take would need to be taken, as a sentence for its reader, "" where that is not known.
func Lacks(takes Takes, n Notification) string {
	n.Event.Metadata = maps.Clone(n.Event.Metadata)
	if n.Event.Metadata == nil {
		n.Event.Metadata = map[string]string{}
	}
	takesWith := func(key, value string) bool {
		was, had := n.Event.Metadata[key]
		n.Event.Metadata[key] = value
		with := n
		with.Annotated = append(slices.Clip(n.Annotated), key)
		taken := takes(with)
		if n.Event.Metadata[key] = was; !had {
			delete(n.Event.Metadata, key)
		}
		return taken
	}
	update := n.Reported(CommitStatusKey) == commitStatusUpdate
	switch {
	case takesWith(ChangeRequestKey, "1"):
		return "This one would be if its object had the annotation " + event.MetadataPrefix + ChangeRequestKey + "."
	case !takesWith(CommitKey, strings.Repeat("c", SHA1Digits)):
		if update && takesWith(CommitStatusKey, "") {
			return "This one only updates the status of a commit."
		}
		return ""
	case update || Failed(n) || n.Reported(CommitKey) != "":
		return "This one would be if its commit, originRevision or revision named a commit of the Git host."
	default:
		return "This one would be if it asked for the update of a commit's status, or its object had the annotation " + event.MetadataPrefix + CommitKey + "."
	}
}

// TakesAll is for types that pass events on unchanged: it takes every event.
func TakesAll(Notification) bool { return true }

// TakesMessages is for types that people read. It takes every event but those that only update the status of a commit.
func TakesMessages(n Notification) bool { return n.Reported(CommitStatusKey) != commitStatusUpdate }

// TakesIncidents is for types that open and close incidents. It leaves out work under way, which does neither.
func TakesIncidents(n Notification) bool { return TakesMessagesAndClosings(n) && !Progressing(n) }

// TakesMessagesAndClosings is for types that people read and on which a failure lasts until a recovery closes it. It takes the same
// events as TakesMessages, and those that only close.
func TakesMessagesAndClosings(n Notification) bool { return TakesMessages(n) || ClosesOnly(n) }

// TakesCommits is for types that write the status of a commit. It takes events that their object ties to a commit, events that ask for
// an update of its status, and failures. It leaves out events whose metadata has no commit.
func TakesCommits(n Notification) bool {
	tied := n.Reported(CommitKey) != "" || n.Reported(CommitStatusKey) == commitStatusUpdate || Failed(n)
	return tied && Commit(n) != ""
}

// TakesChangeRequests is for types that comment on a pull or merge request. It takes events that name one.
func TakesChangeRequests(n Notification) bool { return n.Reported(ChangeRequestKey) != "" }

// Progressing reports whether the event is about work that has begun and not ended.
func Progressing(n Notification) bool { return n.Event.Reason == reasonProgressing }

// TakesOutcomes is for types that take nothing but incidents: failures, and the recoveries that end them.
func TakesOutcomes(n Notification) bool { return Recovered(n) || Failed(n) && TakesMessages(n) }

// Failed reports whether the event is a failure, which opens an incident.
func Failed(n Notification) bool { return n.Event.Severity == event.SeverityError }

// Recovered reports whether the event says that its object is well, which closes the incident that a failure opened.
func Recovered(n Notification) bool { return !Failed(n) && !event.LeavesOpen(n.Event.Reason) }

// ClosesOnly reports whether the event is a recovery that only updates the status of a commit. It closes what a failure opened, and is
// no message. The only success that ends a failure of a Kustomization is such an event, which comes at every interval.
func ClosesOnly(n Notification) bool {
	return Recovered(n) && n.Reported(CommitStatusKey) == commitStatusUpdate
}

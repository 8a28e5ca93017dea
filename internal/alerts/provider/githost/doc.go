// Package githost has the common parts of the types that write to Git hosts: the status of a commit (Statuses) and a comment on a pull
// or merge request (Comments). A type adds the calls of its host's API.
//
// # Statuses
//
// An object has one status per commit. The status's name distinguishes objects and clusters: it is spec.commitStatusExpr, or else
// "kind/name/" and the first group of the Provider's UID, in lower case. Its description is the event's reason in words. The last
// status of that name is read first, and none is set if it is the same. So a repeated send, and one whose answer was lost, change
// nothing.
//
// The deliverer sends the events of one object in order, so the last status set is that of the last event. A replayed notification
// (Notification.Replayed) may be older than later ones of its object. It changes nothing if the host has a status of that name from
// after the event, or if this process set one for a later event.
//
// A Kustomization asks for an update of its status at every interval. The deliverer drops such a notification if the host had its status
// within the last hours (Statuses.Needless), unless an expression names the status. So hundreds of objects stay within a host's limits.
//
// Events under way (reason Progressing, and the reports of a controller while it works) are Pending, which most types do not take.
//
// # Comments
//
// An object has one comment per change request. It is found among the comments of the own account by a mark that readers do not see,
// and edited as events follow. The mark and the text are those of Flux, so comments that Flux wrote are found and edited. A replayed
// notification leaves a newer text as it is, by the same rule as for statuses.
//
// After a failure that needed no change, the only success of a Kustomization is one that asks for an update of its status, as at every
// interval. It edits the comment of a failure, and no other. It is sent after a failure, and once after a start.
//
// All texts of an event are shown as they are written: no mention, reference, quick action, link behind a label, image or HTML in them
// has a meaning to the host. Against meanings that Markdown's escapes do not remove, such as mentions, a zero-width character is
// inserted. Plain addresses stay links. Texts of the Alert's author keep their markup.
package githost

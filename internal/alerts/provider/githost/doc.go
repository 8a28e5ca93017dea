// Package githost is what the types share that write to Git hosts: the status of a commit (Statuses) and a comment on a pull or merge
// request (Comments). A type brings the calls of its host's API.
//
// # Statuses
//
// One status per object and commit. Its name tells objects and clusters apart: spec.commitStatusExpr, else "kind/name/" and the first group
// of the Provider's UID, in lower case. Its description is the event's reason in words. The last status of that name is read before one is
// set, and nothing is set where it says the same: so a repeated send, and one whose answer was lost, change nothing.
//
// The deliverer sends the events of one object in order, so the last status set is that of the last event. What was given up and is sent
// after all may be older than what was sent since: where the host has a status of that name from after the event, or this process set one
// for a later event, such a send changes nothing (Notification.Replayed).
//
// Events under way (reason Progressing, and what a controller reports while it works) are Pending, which most types do not take.
//
// # Comments
//
// One comment per object and change request, found among the comments of the own account by a mark that no reader sees, and edited as events
// follow. The mark and the text are those of Flux, so comments that Flux wrote are found and edited.
//
// Everything from an event is shown as it is written: no mention, reference, quick action, link behind a label, image or HTML of it has a
// meaning to the host. Where Markdown's escapes do not reach, as with mentions, a character of no width takes the meaning away. Plain
// addresses stay links. What the Alert's author wrote keeps its markup.
package githost

// Package gitlab sends notifications to GitLab: as the status of a commit (gitlab) and as a comment on a merge request
// (gitlabmergerequestcomment).
//
// The address is that of the project, in any form that Git accepts, with any depth of groups, or with the project's number for a path.
// The API is that of the host, at /api/v4. An address of the project in the API is taken too, for a GitLab that is installed below a path.
// The token, under token or password, logs in; TLS material may be in the main Secret. A moved project is refused, since GitLab answers with
// a redirect: it needs its new address.
//
// # What is sent
//
// A status and a comment are those of package githost: an object has one of each. It is set or edited only if it differs, so a
// repeated send changes nothing. The state is success or failed; name and description have 255 characters at most. GitLab makes each
// status a job of a pipeline, and each further status a new job. The mark of a comment begins with flux-mr-comment-key. GitLab obeys a
// line that begins with a slash, such as "/merge". So no text of an event begins a line with a slash.
//
// # Limits
//
// GitLab answers 429 with Retry-After to too many requests. gitlab.com publishes 60 comments and 2,000 requests a minute for an
// account. GitLab locks a commit while it sets a status there, and answers 409 to a request that waited in vain. Such a request is tried
// again: objects of one commit become ready together.
//
// GitLab's client library is not used: there are six calls, and it would retry by itself and bring six modules.
package gitlab

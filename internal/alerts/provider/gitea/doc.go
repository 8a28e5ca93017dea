// Package gitea writes to Gitea, Forgejo and other servers with their API. Type gitea writes the status of commits, type
// giteapullrequestcomment a comment on a pull request.
//
// spec.address names the repository, by https, ssh or git@host:; a path before the repository's owner is that of the server. The token
// is an access token, sent as "Authorization: token". If there is none, the password of the Secret replaces it. It needs the scopes
// write:repository for statuses, and write:issue and read:user for comments. New makes no request, not even for the server's version.
//
// # Statuses
//
// The last statuses of the commit's contexts are read, 50 a page and 10 pages at most. A status is posted if the last one of its own
// context has another state or description. The state is success or failure by the event's severity, and pending while work is under
// way. A context beyond the pages is posted again, which changes nothing for a reader. Package githost defines the texts and keeps the
// order over retries.
//
// # Comments
//
// The comments of the pull request are read, which Gitea lists all at once. The comment of the own account with the own mark is
// edited; if there is none, a comment is created. So an attempt whose answer was lost leaves one comment. The account is requested
// once, at the first send. A list beyond 4 MiB fails the send.
//
// No library is used: the calls of Gitea's SDK take no context, it requests the version at construction, and it costs 19 modules for
// five requests.
package gitea

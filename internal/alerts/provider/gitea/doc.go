// Package gitea writes to Gitea, Forgejo and other servers with their API: type gitea the status of commits, type giteapullrequestcomment
// a comment on a pull request.
//
// spec.address names the repository, by https, ssh or git@host:; a path before the repository's owner is that of the server. The token is
// an access token, sent as "Authorization: token"; the password of the Secret takes its place where there is none. It needs the scopes
// write:repository for statuses, and write:issue and read:user for comments. Nothing is asked at construction, not even the server's
// version.
//
// # Statuses
//
// The last statuses of the commit's contexts are read, 50 a page and 10 pages at most, and one is posted where that of the own context has
// another state or description: success or failure by the event's severity, pending while work is under way. A context beyond the pages is
// posted again, which changes nothing for a reader. Package githost defines the texts, and how order is kept over retries.
//
// # Comments
//
// The comments of the pull request are read, which Gitea lists all at once, and that of the own account with the own mark is edited, else
// one is created; so an attempt whose answer was lost leaves one comment. The account is asked once, at the first send. A list beyond 4
// MiB fails the send.
//
// No library: the calls of Gitea's SDK take no context, it asks for the version at construction, and it costs 19 modules for five
// requests.
package gitea

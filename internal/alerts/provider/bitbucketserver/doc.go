// Package bitbucketserver writes the results of builds on Bitbucket Data Center and Server (from 7.4 on): the outcome of a deployment is
// seen beside its commit and in pull requests.
//
// # Builds
//
// The last build of the key is read. A build is posted if its state or description differs. The state is SUCCESSFUL or FAILED by the
// event's severity; the description is the event's reason in words. The name is the object and the description, since Bitbucket shows
// only the name beside a commit. The link, which Bitbucket requires, is the commit's own page. The key is the SHA-1 of the status's
// name in hexadecimal digits, so an object has one build per commit and Provider. Events about work under way are left out. Package
// githost defines the texts.
//
// # Where
//
// spec.address is the one for cloning over HTTP: the part before "/scm/" is the server with the path that it is installed under. A
// token is an HTTP access token, sent as a bearer token. Without a token the username (of the Secret or the spec) and the password log
// in. Requests carry "X-Atlassian-Token: no-check", without which Bitbucket may reject a POST as forged.
//
// # Repetition and order
//
// Bitbucket keeps one build per key and commit and replaces it, so a repeated send whose first answer was lost leaves one build. The
// deliverer sends an object's events one after the other, each after the end of the last: no retried failure follows a newer success.
// Package githost keeps replayed dead letters from replacing a newer status.
//
// No library is used: none that is maintained has these two requests.
package bitbucketserver

// Package bitbucketserver writes the results of builds on Bitbucket Data Center and Server (from 7.4 on): the outcome of a deployment is
// seen beside its commit and in pull requests.
//
// # Builds
//
// The last build of the key is read, and one is posted where its state or description differs: SUCCESSFUL or FAILED by the event's
// severity, the event's reason in words as the description, object and description as the name, which is all that Bitbucket shows beside a
// commit, and the commit's own page as the link, which Bitbucket wants. The key is the SHA-1 of the status's name in hexadecimal digits,
// so an object has one build per commit and Provider. Events about work under way are left out. Package githost defines the texts.
//
// # Where
//
// spec.address is the one for cloning over HTTP: the part before "/scm/" is the server with the path that it is installed under. A token
// is an HTTP access token, sent as a bearer token; without one the username (of the Secret or the spec) and the password log in. Requests
// carry "X-Atlassian-Token: no-check", without which Bitbucket may take a POST for a forged one.
//
// # Repetition and order
//
// Bitbucket keeps one build per key and commit and replaces it, so a send that is repeated, its first answer lost, leaves one build. An
// object's events come here one after the other, each after the outcome of the last is settled: no failure that is retried comes after a
// newer success. Package githost keeps replayed dead letters from replacing a newer status.
//
// No library: there is none for these two requests that is kept.
package bitbucketserver

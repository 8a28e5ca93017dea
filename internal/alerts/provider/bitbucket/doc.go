// Package bitbucket writes the status of commits on Bitbucket Cloud: the outcome of a deployment is seen beside its commit, in pull
// requests and in the list of builds.
//
// # Statuses
//
// The last status of the key is read. A status is posted if its state or description differs. The state is SUCCESSFUL or FAILED by the
// event's severity; the description is the event's reason in words; the name is the object. The link, which Bitbucket requires, is the
// commit's own page. The key is the SHA-1 of the status's name in hexadecimal digits, which are the 40 characters that a key may have.
// So an object has one status per commit and Provider. Events about work under way are left out. Package githost defines the texts.
//
// # Where
//
// spec.address names the repository, by https, ssh or git@bitbucket.org:. The API is at api.bitbucket.org for every host of an
// address, unless BITBUCKET_API_BASE_URL in the environment of the process names another. A token "name:password", with one colon,
// logs in as that user; app passwords and API tokens are written so. A token without a colon is an access token of the repository.
// Without a token the username and password of the Secret log in.
//
// # Repetition and order
//
// Bitbucket keeps one status per key and replaces it, so a repeated send whose first answer was lost leaves one status. The deliverer
// sends an object's events one after the other, each after the end of the last: no retried failure follows a newer success. Package
// githost keeps replayed dead letters from replacing a newer status.
//
// Bitbucket lets an account make 1,000 requests an hour, and a send makes two. So sends are limited to 200 at once and 300 an hour.
//
// No library is used: Flux's takes no context and decodes answers into any, and there are two requests.
package bitbucket

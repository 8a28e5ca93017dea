// Package bitbucket writes the status of commits on Bitbucket Cloud: the outcome of a deployment is seen beside its commit, in pull
// requests and in the list of builds.
//
// # Statuses
//
// The last status of the key is read, and one is posted where its state or description differs: SUCCESSFUL or FAILED by the event's
// severity, the event's reason in words as the description, the object as the name, and as the link, which Bitbucket wants, the commit's
// own page. The key is the SHA-1 of the status's name in hexadecimal digits, which are the 40 characters that a key may have; so an object
// has one status per commit and Provider. Events about work under way are left out. Package githost defines the texts.
//
// # Where
//
// spec.address names the repository, by https, ssh or git@bitbucket.org:. The API is at api.bitbucket.org whatever the host there, unless
// BITBUCKET_API_BASE_URL in the environment of the process says otherwise. A token "name:password", with one colon, logs in as that user,
// which is how app passwords and API tokens are written; one without a colon is an access token of the repository. Without a token the
// username and password of the Secret log in.
//
// # Repetition and order
//
// Bitbucket keeps one status per key and replaces it, so a send that is repeated, its first answer lost, leaves one status. An object's
// events come here one after the other, each after the outcome of the last is settled: no failure that is retried comes after a newer
// success. Package githost keeps replayed dead letters from replacing a newer status.
//
// Bitbucket lets an account make 1,000 requests an hour, of which a send makes two: sends are held to 200 at once and 300 an hour.
//
// No library: Flux's takes no context and decodes answers into any, and there are two requests.
package bitbucket

// Package github sends notifications to GitHub and GitHub Enterprise: as the status of a commit (github), as a comment on a pull
// request (githubpullrequestcomment) and as a repository_dispatch event, which starts workflows (githubdispatch).
//
// The address is that of the repository, in any form that Git accepts. The API is at api.github.com for github.com, at api.<host> for
// <name>.ghe.com, at the host itself if "api" is a part of its name before the last, and at /api/v3 of any other host. A renamed
// repository is refused, since GitHub answers with a redirect: it needs its new address.
//
// # Login
//
// A token, under token or password, logs in. Without one a GitHub App does: githubAppID, githubAppPrivateKey, and
// githubAppInstallationID or githubAppInstallationOwner. githubAppBaseURL is the API that issues the App's tokens, if it is not the
// repository's. A token of the App is requested when one is needed and kept until five minutes before its end. A refused token is
// replaced once per request. TLS material may be in the main Secret.
//
// # What is sent
//
// A status and a comment are those of package githost: an object has one of each. It is set or edited only if it differs, so a
// repeated send changes nothing. The state is success or failure. GitHub takes descriptions of 140 characters and bodies of 65,536. A
// status is looked for among the last hundred of its commit and, if there are as many, among the last ones of a thousand names.
//
// A dispatch has the event type "Kind/name.namespace", of at most 100 characters. Its client_payload is the event, with the delivery's
// ID as deliveryID. GitHub drops no repeated dispatch, but a workflow can, by a concurrency group or by that ID. A payload is cut to
// GitHub's 64 KB: the message first, then the metadata.
//
// # Limits
//
// GitHub publishes 80 requests a minute that create content, and 500 an hour, of one user over all repositories. The Client keeps to the
// first. The second is of all Providers with the same token, which do not know of each other. GitHub answers a request beyond a limit with
// 403 or 429 and Retry-After, or with no requests left until X-RateLimit-Reset. Such an answer is retried after the wait; other answers of
// 403, 404 and 422 are final.
//
// go-github is not used: there are six calls, and its own treatment of limits, redirects and answers would conflict with the Client's.
package github

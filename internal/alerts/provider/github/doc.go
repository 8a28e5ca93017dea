// Package github sends notifications to GitHub and GitHub Enterprise: as the status of a commit (github), as a comment on a pull request
// (githubpullrequestcomment) and as a repository_dispatch event, which starts workflows (githubdispatch).
//
// The address is that of the repository, in any form that Git takes. The API is that of api.github.com for github.com, of api.<host> for
// <name>.ghe.com, and /api/v3 of any other host. A repository that was renamed is refused, since GitHub answers with a redirect: it needs
// its new address.
//
// # Login
//
// By a token, which is under token or password, else as a GitHub App: githubAppID, githubAppPrivateKey, and githubAppInstallationID or
// githubAppInstallationOwner; githubAppBaseURL is the API that gives the App its tokens, where it is not that of the repository. Tokens of
// the App are asked for when one is needed and kept until five minutes before their end. One that is refused is replaced once in a send.
// TLS material may be in the main Secret.
//
// # What is sent
//
// A status and a comment are those of package githost: one for each object, set or edited only when it says something else than before, so
// a repeated send changes nothing. The state is success or failure. GitHub takes descriptions of 140 characters and bodies of 65,536.
//
// A dispatch has the event type "Kind/name.namespace", of at most 100 characters, and the event as client_payload, with the delivery's ID as
// deliveryID: GitHub drops no repeated dispatch, but a workflow can, by a concurrency group or by that ID. A payload is cut to GitHub's
// 64 KB: the message first, then the metadata.
//
// # Limits
//
// GitHub publishes 80 requests a minute that create content, and says by its answers when more was asked: 403 or 429 with Retry-After, or
// with nothing left until X-RateLimit-Reset. Such an answer is one to wait for; other answers of 403, 404 and 422 are final.
//
// go-github is not used: there are six calls, and its own reading of limits, redirects and answers would be in the way of the Client's.
package github

// Package azuredevops writes the status of commits in Azure Repos, of Azure DevOps Services and Server (2019 and later).
//
// # Statuses
//
// The last statuses of the commit's contexts are read. A status is posted if the last one of its own context has another state or
// description. The state is succeeded or error by the event's severity; the description is the event's reason in words. The context is
// the genre "fluxcd", or "fluxcd:" and the event's summary, and the status's name. So an object has one status per commit, Provider
// and summary. Events about work under way are left out. Package githost defines the texts. They have at most 255 characters, since
// Microsoft publishes no limit.
//
// # Where
//
// spec.address names the repository as it is cloned: host/organization/project/_git/repository, organization.visualstudio.com, a
// collection of an own server, or the form for ssh at ssh.dev.azure.com. A project's first repository may omit the project.
//
// A token is a personal access token, sent as a password without a user (Basic). Without a token spec.serviceAccountName logs in at
// Microsoft Entra ID with its workload identity (package cloudauth); its access token is sent as a bearer token.
//
// Azure DevOps answers invalid credentials with a page to sign in and a status of success. A header of each request asks for a 401
// instead, and such a page is a refusal.
//
// # Repetition and order
//
// The statuses of a context follow each other, and the last one counts. If the first answer of a repeated send was lost, the second
// attempt finds the posted status and posts none. The deliverer sends an object's events one after the other, each after the end of
// the last: no retried failure follows a newer success. Package githost keeps replayed dead letters from following a newer status.
//
// No library is used: Microsoft's SDK makes three more requests at the first call, is hardly maintained, and sends every credential as
// a personal access token.
package azuredevops

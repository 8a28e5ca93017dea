// Package azuredevops writes the status of commits in Azure Repos, of Azure DevOps Services and Server (2019 and later).
//
// # Statuses
//
// The last statuses of the commit's contexts are read, and one is posted where that of the own context has another state or description:
// succeeded or error by the event's severity, the event's reason in words as the description. The context is the genre "fluxcd", or
// "fluxcd:" and the event's summary, and the status's name; so an object has one status per commit, Provider and summary. Events about
// work under way are left out. Package githost defines the texts; they are kept to 255 characters, since Microsoft publishes no limit.
//
// # Where
//
// spec.address names the repository as it is cloned: host/organization/project/_git/repository, organization.visualstudio.com, a
// collection of an own server, or the form for ssh at ssh.dev.azure.com. A project's first repository may go without the project.
//
// A token is a personal access token, sent as the password of nobody (Basic). Without one spec.serviceAccountName logs in at Microsoft
// Entra ID with its workload identity (package cloudauth), whose access token is sent as a bearer token.
//
// Azure DevOps answers credentials that it does not know with a page to sign in and a status of success. It is asked not to, and such a
// page is a refusal.
//
// # Repetition and order
//
// The statuses of a context follow each other, and the last one counts. A send that is repeated, its first answer lost, finds its own and
// posts none. An object's events come here one after the other, each after the outcome of the last is settled: no failure that is retried
// comes after a newer success. Package githost keeps replayed dead letters from following a newer status.
//
// No library: Microsoft's SDK asks three more questions at the first call, is hardly kept, and sends every credential as a personal access
// token.
package azuredevops

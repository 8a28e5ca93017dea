// Package cloudauth logs in at a cloud with the workload identity of a Provider's service account. The cluster issues a token for the
// account, and the package exchanges it for an access token of the cloud. No key is stored anywhere, and the process needs no identity
// of its own.
//
//	source, err := cloudauth.Azure(cfg, scope) // in New; no network
//	token, err := source.Token(ctx)            // in Send; to be sent as Authorization: Bearer
//	source.Close()                             // in Close
//
// Azure and Google need Config.ServiceAccount, Config.Identity and Config.Annotations. Their errors name the missing one and the
// person to ask. A Source keeps its token until a fifth of its life is left, for at most an hour. One exchange runs at a time. If a
// renewal fails, or takes longer than some seconds, a token that is still valid is used, and the next renewal is tried a minute later. Any
// number of goroutines may call Token; its errors are *event.Error.
//
// A refused login is retried under every status: federations are set up and repaired at the cloud, without an edit of the Provider,
// and take minutes to take effect.
//
// An account's token has the permissions of the account, and the Provider's author may have fewer. So a token is sent only to hosts of
// its cloud whose certificates the system's authorities have signed. The Provider's own authorities are left out (Public), and a type
// whose address names the host checks that host.
//
// # Azure
//
// The account's annotations azure.workload.identity/client-id and azure.workload.identity/tenant-id name an application or a managed
// identity with a federated credential for the account. The token's audience is api://AzureADTokenExchange (OAuth 2.0 client
// credentials grant with a JWT assertion, RFC 7523). Entra ID is at AZURE_AUTHORITY_HOST of the process's environment; sovereign
// clouds have their own.
//
// # Google Cloud
//
// The account's annotation gcp.auth.fluxcd.io/workload-identity-provider names a provider of a workload identity pool
// (projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER). Without it the cluster has to be one of GKE, whose
// own pool is used. Only project, location and name of the cluster are then requested from the metadata server. The token is exchanged
// at the Security Token Service (RFC 8693). The annotation iam.gke.io/gcp-service-account then names a service account of Google's to
// act as.
//
// # Libraries
//
// The vendors' SDKs (azidentity, google/externalaccount) bring clients, caches and further sources of credentials of their own, among
// them the machine's. Both exchanges are one or two POSTs, which are made by provider.Client like a notification: with the same checks
// and by the Provider's proxy.
package cloudauth

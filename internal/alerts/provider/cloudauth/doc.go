// Package cloudauth logs in at a cloud with the workload identity of a Provider's service account: a token that the cluster issues for
// the account is exchanged for an access token of the cloud. No key is stored anywhere, and the process has no part in it with an
// identity of its own.
//
//	source, err := cloudauth.Azure(cfg, scope) // in New; no network
//	token, err := source.Token(ctx)            // in Send; to be sent as Authorization: Bearer
//	source.Close()                             // in Close
//
// Azure and Google need Config.ServiceAccount, Config.Identity and Config.Annotations, and their errors say which one is missing and who
// can mend it. A Source keeps its token until a fifth of its life is left, for at most an hour, and one exchange runs at a time. A token
// that is still good is used when its renewal fails. Token may be called by any number of goroutines; its errors are *event.Error.
//
// A login that is refused is retried, whatever its status: federations are set up and repaired at the cloud, without an edit of the
// Provider, and take minutes to be in force.
//
// # Azure
//
// The account's annotations azure.workload.identity/client-id and azure.workload.identity/tenant-id name an application or a managed
// identity with a federated credential for the account; the token's audience is api://AzureADTokenExchange (OAuth 2.0 client credentials
// grant with a JWT assertion, RFC 7523). Entra ID is at AZURE_AUTHORITY_HOST of the process's environment, where the sovereign clouds
// have their own.
//
// # Google Cloud
//
// The account's annotation gcp.auth.fluxcd.io/workload-identity-provider names a provider of a workload identity pool
// (projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER). Without it the cluster has to be one of GKE, whose
// own pool is used; project, location and name of the cluster are then asked of the metadata server, and nothing else is. The token is
// exchanged at the Security Token Service (RFC 8693), and the annotation iam.gke.io/gcp-service-account names a service account of
// Google's to act as after that.
//
// # Libraries
//
// The vendors' SDKs (azidentity, google/externalaccount) bring clients, caches and further sources of credentials of their own, among
// them the machine's. Both exchanges are one or two POSTs, which go through provider.Client like a notification: guarded, by the
// Provider's proxy.
package cloudauth

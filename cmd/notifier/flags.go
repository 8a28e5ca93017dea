package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"notifier/internal/app"
)

// newFlags declares the flags of serve. The returned function returns the options once the flags are parsed.
func newFlags() (*pflag.FlagSet, func() app.Options) {
	o := app.DefaultOptions()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {}

	listenFlags(fs, &o)
	tenancyFlags(fs, &o)
	busFlags(fs, &o)
	limitFlags(fs, &o)
	kubeFlags(fs, &o)
	legacyFlags(fs)

	return fs, func() app.Options {
		o.RuntimeNamespace, o.SPIFFESocket = os.Getenv("RUNTIME_NAMESPACE"), os.Getenv("SPIFFE_ENDPOINT_SOCKET")
		fs.VisitAll(func(f *pflag.Flag) {
			// The caller may have added the flags to another set before parsing.
			if meaning, ok := strings.CutPrefix(f.Usage, acceptedForFlux); ok && f.Changed {
				o.AcceptedFlags[f.Name] = "has no effect: " + meaning
			}
		})
		for gate := range o.FeatureGates {
			if gate != app.WorkloadIdentityGate {
				o.AcceptedFlags["feature-gates"] = "has no effect but for the gate " + app.WorkloadIdentityGate
			}
		}
		return o
	}
}

func listenFlags(fs *pflag.FlagSet, o *app.Options) {
	fs.StringVar(&o.EventsAddr, "events-addr", o.EventsAddr, "address of the events endpoint, which Flux controllers POST to")
	fs.StringVar(&o.ReceiverAddr, "receiverAddr", o.ReceiverAddr, "address of the webhook endpoint")
	fs.StringVar(&o.ReceiverAddr, "receiver-addr", o.ReceiverAddr, "the same as --receiverAddr")
	fs.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile,
		"certificate chain of the webhook endpoint, which is then HTTPS; read again when it changes; empty is HTTP, for a proxy in front")
	fs.StringVar(&o.TLSKeyFile, "tls-key-file", o.TLSKeyFile, "private key for --tls-cert-file")
	fs.StringArrayVar(&o.AuthorizedNotifiers, "authorized-notifier-spiffe-id", nil,
		"SPIFFE ID of a client that may POST events, which are then taken by mutual TLS alone; repeatable; needs SPIFFE_ENDPOINT_SOCKET")
	fs.StringArrayVar(&o.AuthorizedReceivers, "authorized-receiver-spiffe-id", nil,
		"SPIFFE ID of a client, such as an ingress, that may send webhooks, which are then taken by mutual TLS alone; repeatable; "+
			"needs SPIFFE_ENDPOINT_SOCKET")
	fs.StringVar(&o.MetricsAddr, "metrics-addr", o.MetricsAddr, "address of the metrics endpoint")
	fs.StringVar(&o.HealthAddr, "health-addr", o.HealthAddr, "address of /healthz and /readyz")
	fs.StringVar(&o.PprofAddr, "pprof-addr", o.PprofAddr, "loopback address of /debug/pprof/, for kubectl port-forward; empty is none")
	fs.StringVar(&o.APIAddr, "api-addr", o.APIAddr, "address of the API and the page for owners of namespaces; empty is none")
	fs.StringVar(&o.APITLSCertFile, "api-tls-cert-file", o.APITLSCertFile,
		"certificate chain of the API, which is then HTTPS; read again when it changes; empty is HTTP, for a proxy in front")
	fs.StringVar(&o.APITLSKeyFile, "api-tls-key-file", o.APITLSKeyFile, "private key for --api-tls-cert-file")
	fs.StringSliceVar(&o.APIAudiences, "api-audiences", o.APIAudiences,
		"audiences for one of which a token for the API must be issued; empty takes those of the Kubernetes API server")
	fs.StringVar(&o.LogLevel, "log-level", o.LogLevel, "lowest level that is logged: "+app.LogLevels+"; trace is as debug, warn as error")
	fs.StringVar(&o.LogEncoding, "log-encoding", o.LogEncoding, "format of the log: json or console")
}

func tenancyFlags(fs *pflag.FlagSet, o *app.Options) {
	fs.BoolVar(&o.NoCrossNamespaceRefs, "no-cross-namespace-refs", o.NoCrossNamespaceRefs,
		"references between namespaces are always refused; false is an error")
	fs.StringVar(&o.DefaultServiceAccount, "default-service-account", o.DefaultServiceAccount,
		"service account, in the Receiver's namespace, that writes for Receivers that name none")
	fs.BoolVar(&o.RequireSecretLabel, "require-secret-label", o.RequireSecretLabel,
		"use only Secrets with the label notification.toolkit.fluxcd.io/secret: Enabled")
	fs.BoolVar(&o.WatchAllNamespaces, "watch-all-namespaces", o.WatchAllNamespaces,
		"serve every namespace; false serves only the one in RUNTIME_NAMESPACE")
	fs.StringSliceVar(&o.AllowDestinations, "allow-destinations", o.AllowDestinations,
		"CIDRs that Providers, and the fetching of issuers' keys, may reach although they are loopback, link-local, multicast or metadata addresses")
	fs.BoolVar(&o.EnvironmentProxy, "destinations-use-environment-proxy", o.EnvironmentProxy,
		"reach Providers without a proxy of their own, and issuers, through HTTPS_PROXY, HTTP_PROXY and NO_PROXY of this process")
	fs.StringVar(&o.GoogleIssuer, "google-issuer", o.GoogleIssuer,
		"issuer of the tokens that Receivers of type gcr accept, for tests with an issuer of their own")
	_ = fs.MarkHidden("google-issuer") // it is declared
	fs.StringToStringVar(&o.FeatureGates, "feature-gates", o.FeatureGates,
		app.WorkloadIdentityGate+"=true lets Providers log in at a cloud as a service account of their namespace; Flux's other gates "+
			"have no effect")
	fs.IntVar(&o.TokenCacheSize, "token-cache-max-size", o.TokenCacheSize, "tokens of service accounts that are kept; 0 keeps none")
	fs.DurationVar(&o.TokenCacheAge, "token-cache-max-duration", o.TokenCacheAge,
		"time for which such a token is kept at most; its own life is an hour")
	fs.IntVar(&o.MaxAlertsPerNamespace, "max-alerts-per-namespace", o.MaxAlertsPerNamespace,
		"Alerts beyond this number in one namespace are not served, youngest first; 0 is no limit")
	fs.IntVar(&o.MaxReceiversPerNamespace, "max-receivers-per-namespace", o.MaxReceiversPerNamespace,
		"Receivers beyond this number in one namespace are not served, youngest first; 0 is no limit")
}

func busFlags(fs *pflag.FlagSet, o *app.Options) {
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "directory of the embedded NATS JetStream server, on a volume that survives the Pod")
	fs.StringVar(&o.NATSURL, "nats-url", o.NATSURL, "URLs of an external NATS JetStream server, comma separated; empty runs one in this process")
	fs.StringVar(&o.NATSCreds, "nats-creds", o.NATSCreds, "credentials file for --nats-url")
	fs.IntVar(&o.StreamReplicas, "stream-replicas", o.StreamReplicas, "replicas of every stream, 1 to 5; more than 1 needs --nats-url")
	fs.DurationVar(&o.RateLimitInterval, "rate-limit-interval", o.RateLimitInterval,
		"time within which a repeated event is a duplicate and answered 429")
	fs.DurationVar(&o.HistoryAge, "history-age", o.HistoryAge,
		"time for which owners are shown sent deliveries, if there is space for them, 26h at least; 0 shows none")
	fs.IntVar(&o.NamespaceQuota, "namespace-quota", o.NamespaceQuota,
		"notifications of one namespace that may wait, divided evenly among its Providers; beyond it the oldest are dead-lettered")
	fs.DurationVar(&o.DeadLetterReplay, "dead-letter-replay", o.DeadLetterReplay,
		"age up to which dead letters are sent after all when their Provider is corrected, 168h at most; 0 never")
	fs.IntVar(&o.DeadPerProvider, "dead-letters-per-provider", o.DeadPerProvider,
		"dead letters that are kept of one Provider, 20000 at most; beyond it its oldest are dropped")
	fs.DurationVar(&o.DeliveryMaxAge, "delivery-max-age", o.DeliveryMaxAge,
		"time for which a notification is tried before it is dead-lettered, 24h at most")
}

func limitFlags(fs *pflag.FlagSet, o *app.Options) {
	fs.DurationVar(&o.TriggerInterval, "trigger-interval", o.TriggerInterval, "least time between two reconcile requests for one object")
	fs.Float64Var(&o.ReceiverRate, "receiver-rate", o.ReceiverRate,
		"webhooks a second that one Receiver accepts before it answers folded: true; 0 is no limit")
	fs.IntVar(&o.ReceiverBurst, "receiver-burst", o.ReceiverBurst, "webhooks that one Receiver accepts at once before --receiver-rate holds")
	fs.Float64Var(&o.NamespaceRate, "namespace-rate", o.NamespaceRate,
		"webhooks a second that the Receivers of one namespace accept before they answer folded: true; 0 is no limit")
	fs.Float64Var(&o.ClientFailureRate, "client-failure-rate", o.ClientFailureRate,
		"requests a second for unknown webhook paths that one client address may make; 0 is no limit")
	fs.StringSliceVar(&o.TrustedProxies, "trusted-proxies", o.TrustedProxies,
		"CIDRs of the proxies in front of the webhook endpoint and the API, whose X-Forwarded-For is believed; empty believes nobody's")
	fs.Float64Var(&o.PathFailureRate, "path-failure-rate", o.PathFailureRate,
		"failed authentications a second on one webhook path before they answer 429; 0 is no limit")
	fs.Int64Var(&o.MaxInFlight, "max-in-flight", o.MaxInFlight,
		"webhooks that are read at the same time, a sixteenth of them on one path and a quarter in one namespace; 0 is no limit")
	fs.Int64Var(&o.MaxBodiesInFlight, "max-body-bytes-in-flight", o.MaxBodiesInFlight,
		"bytes of webhook bodies that are kept in memory at the same time, shared out like --max-in-flight; 0 is no limit")
	fs.Float64Var(&o.SlackRate, "slack-rate", o.SlackRate,
		"messages a second to one Provider on slack.com without spec.rateLimit; 0 is no limit")
	fs.IntVar(&o.SlackBurst, "slack-burst", o.SlackBurst, "messages that such a Provider is sent at once before --slack-rate holds")
	fs.Float64Var(&o.EventsClientRate, "events-client-rate", o.EventsClientRate,
		"events a second accepted from one client address; 0 is no limit")
	fs.Float64Var(&o.EventsNamespaceRate, "events-namespace-rate", o.EventsNamespaceRate,
		"events a second accepted for one namespace; 0 is no limit")
}

func kubeFlags(fs *pflag.FlagSet, o *app.Options) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file; empty means in-cluster, then KUBECONFIG")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS,
		"requests a second to the Kubernetes API for the three kinds and their status, and as many for Events")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "requests to the Kubernetes API at once before --kube-api-qps holds")
	fs.Float32Var(&o.SecretQPS, "secret-read-qps", o.SecretQPS, "reads of Secrets a second, apart from --kube-api-qps")
	fs.Float32Var(&o.TriggerQPS, "trigger-qps", o.TriggerQPS, "reconcile requests a second over all tenants, apart from --kube-api-qps")
	fs.DurationVar(&o.AccessReviewInterval, "access-review-interval", o.AccessReviewInterval,
		"time after which the Kubernetes API is asked again whether service accounts may write what Receivers name, "+
			"and which fields its definitions of the three kinds have")
	fs.IntVar(&o.Concurrent, "concurrent", o.Concurrent, "statuses of one kind that are written at the same time")
}

// acceptedForFlux begins the usage of a flag of Flux's notification-controller that sets nothing here.
const acceptedForFlux = "accepted for Flux: "

// legacyFlags declares those flags, so that a Deployment written for Flux starts unchanged.
func legacyFlags(fs *pflag.FlagSet) {
	fs.Bool("export-http-path-metrics", false, acceptedForFlux+"a hook path is a credential and never becomes a metric label")
	fs.String("watch-configs-label-selector", "",
		acceptedForFlux+"every Secret that a Receiver or Provider names is watched, by name, without a label")
	fs.Duration("min-retry-delay", 0, acceptedForFlux+"a failed reconciliation is retried after 250ms, growing")
	fs.Duration("max-retry-delay", 0, acceptedForFlux+"a failed reconciliation is retried at least every minute")
	fs.Bool("enable-leader-election", false, acceptedForFlux+"with several replicas one is always the worker, by a lease in NATS")
	for _, name := range []string{"leader-election-lease-duration", "leader-election-renew-deadline", "leader-election-retry-period"} {
		fs.Duration(name, 0, acceptedForFlux+"the times of the worker's lease are fixed, another replica takes over within 5s of a kill")
	}
	fs.Bool("leader-election-release-on-cancel", true, acceptedForFlux+"a worker that is stopped always gives its lease back")
}

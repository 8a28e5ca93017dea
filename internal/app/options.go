package app

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"notifier/internal/alerts"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/bus"
	"notifier/internal/receiver"
	"notifier/internal/receiver/events"
	"notifier/internal/receiver/oidc"
)

// Options are the settings of the process, one field a flag.
type Options struct {
	EventsAddr   string
	ReceiverAddr string
	MetricsAddr  string
	HealthAddr   string
	// PprofAddr is empty if no profiles are served.
	PprofAddr string
	// APIAddr is empty if the API is off.
	APIAddr        string
	APITLSCertFile string
	APITLSKeyFile  string
	APIAudiences   []string
	// AuthorizedNotifiers and AuthorizedReceivers are the SPIFFE IDs of the clients of the events endpoint and of the webhook endpoint; of an
	// endpoint without any every client may connect.
	AuthorizedNotifiers []string
	AuthorizedReceivers []string
	// SPIFFESocket is the address of the SPIFFE Workload API, of the environment variable SPIFFE_ENDPOINT_SOCKET.
	SPIFFESocket string
	LogLevel     string
	LogEncoding  string

	NoCrossNamespaceRefs  bool
	DefaultServiceAccount string
	RequireSecretLabel    bool
	WatchAllNamespaces    bool
	RuntimeNamespace      string
	AllowDestinations     []string
	EnvironmentProxy      bool
	// GoogleIssuer is the issuer of the tokens of type gcr.
	GoogleIssuer             string
	MaxAlertsPerNamespace    int
	MaxReceiversPerNamespace int

	DataDir           string
	NATSURL           string
	NATSCreds         string
	StreamReplicas    int
	RateLimitInterval time.Duration
	HistoryAge        time.Duration
	NamespaceQuota    int
	DeadPerProvider   int
	DeadLetterReplay  time.Duration
	DeliveryMaxAge    time.Duration
	// FeatureGates are the given gates of Flux. Only WorkloadIdentityGate has an effect.
	FeatureGates map[string]string
	// TokenCacheSize and TokenCacheAge bound the cached tokens of service accounts.
	TokenCacheSize int
	TokenCacheAge  time.Duration
	// SlackRate and SlackBurst apply to Providers on slack.com without a limit of their own.
	SlackRate  float64
	SlackBurst int

	TriggerInterval     time.Duration
	ReceiverRate        float64
	ReceiverBurst       int
	NamespaceRate       float64
	ClientFailureRate   float64
	PathFailureRate     float64
	TrustedProxies      []string
	MaxInFlight         int64
	MaxBodiesInFlight   int64
	TLSCertFile         string
	TLSKeyFile          string
	EventsClientRate    float64
	EventsNamespaceRate float64

	Kubeconfig   string
	KubeAPIQPS   float32
	KubeAPIBurst int
	SecretQPS    float32
	TriggerQPS   float32
	Concurrent   int
	// AccessReviewInterval is the interval of the reviews of service accounts' permissions by the API server.
	AccessReviewInterval time.Duration

	// AcceptedFlags has the given flags of Flux's notification-controller that set nothing here, each with its meaning.
	AcceptedFlags map[string]string
	LogOutput     io.Writer
	Version       string
}

// DefaultOptions returns the settings of a process without flags.
func DefaultOptions() Options {
	webhooks, posts, destinations := receiver.DefaultLimits(), events.DefaultOptions(), registry.DefaultLimits()
	return Options{
		EventsAddr: ":9090", ReceiverAddr: ":9292", MetricsAddr: ":8080", HealthAddr: ":9440",
		LogLevel: "info", LogEncoding: "json",
		NoCrossNamespaceRefs: true, DefaultServiceAccount: "default", WatchAllNamespaces: true,
		GoogleIssuer: oidc.GoogleIssuer, MaxAlertsPerNamespace: 1000, MaxReceiversPerNamespace: 1000,
		DataDir: "/data", StreamReplicas: 1, RateLimitInterval: 5 * time.Minute, HistoryAge: bus.DefaultHistoryAge, NamespaceQuota: 10000, DeadPerProvider: bus.DefaultDeadPerProvider,
		DeadLetterReplay: alerts.DefaultReplayWindow, DeliveryMaxAge: alerts.DefaultMaxAge, TokenCacheSize: 100, TokenCacheAge: time.Hour,
		SlackRate: float64(destinations.Slack.Rate), SlackBurst: destinations.Slack.Burst,
		TriggerInterval: time.Second, ReceiverRate: webhooks.Receiver.Rate, ReceiverBurst: webhooks.Receiver.Burst, NamespaceRate: webhooks.Tenant.Rate,
		ClientFailureRate: webhooks.Unknown.Rate, PathFailureRate: webhooks.Failure.Rate,
		MaxInFlight: webhooks.Requests.Total, MaxBodiesInFlight: webhooks.Bodies.Total,
		EventsClientRate: posts.Address.Rate, EventsNamespaceRate: posts.Namespace.Rate,
		KubeAPIQPS: 50, KubeAPIBurst: 300, SecretQPS: 500, TriggerQPS: 200, Concurrent: 4,
		AccessReviewInterval: 5 * time.Minute,
		AcceptedFlags:        map[string]string{}, LogOutput: os.Stderr,
	}
}

// Validate returns an error that lists every bad setting by the name of its flag, nil if there is none.
func (o Options) Validate() error {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	o.validateListen(bad)
	o.validateTenancy(bad)
	o.validateBus(bad)
	o.validateLimits(bad)
	o.validateReceiver(bad)
	o.validatePeers(bad)
	o.validateAPI(bad)
	o.validateProfiles(bad)
	return errors.Join(errs...)
}

type badFlag func(flag, format string, args ...any)

func (o Options) validateListen(bad badFlag) {
	for _, a := range []struct{ flag, addr string }{
		{"events-addr", o.EventsAddr},
		{"receiverAddr", o.ReceiverAddr},
		{"metrics-addr", o.MetricsAddr},
		{"health-addr", o.HealthAddr},
	} {
		if _, err := net.ResolveTCPAddr("tcp", a.addr); err != nil || a.addr == "" {
			bad(a.flag, "%q is not an address of the form host:port or :port", a.addr)
		}
	}
	if _, err := parseLevel(o.LogLevel); err != nil {
		bad("log-level", "%v", err)
	}
	if o.LogEncoding != "json" && o.LogEncoding != "console" {
		bad("log-encoding", "%q is neither json nor console", o.LogEncoding)
	}
}

func (o Options) validateTenancy(bad badFlag) {
	if !o.NoCrossNamespaceRefs {
		bad("no-cross-namespace-refs", "false is refused: references between namespaces would let one tenant act on another's "+
			"objects, and no setting opens that here; leave the flag out or set it to true")
	}
	if len(validation.IsDNS1123Subdomain(o.DefaultServiceAccount)) > 0 {
		bad("default-service-account", "%q is not the name of a service account", o.DefaultServiceAccount)
	}
	if !o.WatchAllNamespaces && len(validation.IsDNS1123Label(o.RuntimeNamespace)) > 0 {
		bad("watch-all-namespaces", "false needs the namespace to serve in the environment variable RUNTIME_NAMESPACE")
	}
	if _, err := provider.ParseNetwork(o.AllowDestinations, o.EnvironmentProxy); err != nil {
		bad("allow-destinations", "%v; it takes CIDRs such as 10.0.0.0/8", err)
	}
	if !isIssuer(o.GoogleIssuer) {
		bad("google-issuer", "is neither https://host nor http://<loopback address>:port") // not quoted: it may contain a password
	}
	if _, err := o.workloadIdentity(); err != nil {
		bad("feature-gates", "%s=%q is neither true nor false", WorkloadIdentityGate, o.FeatureGates[WorkloadIdentityGate])
	}
}

// isIssuer reports whether the URL of an issuer can be trusted: https, or http on a loopback address, so that no host on the way can answer
// for it.
func isIssuer(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && err == nil && addr.IsLoopback()
}

func (o Options) validateBus(bad badFlag) {
	if o.NATSURL == "" {
		if o.DataDir == "" {
			bad("data-dir", "is empty: the embedded NATS server needs a directory, or set --nats-url")
		}
		if o.NATSCreds != "" {
			bad("nats-creds", "needs --nats-url")
		}
	}
	for u := range strings.SplitSeq(o.NATSURL, ",") {
		if o.NATSURL == "" {
			break
		}
		parsed, err := url.Parse(strings.TrimSpace(u))
		if err != nil || parsed.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, parsed.Scheme) {
			bad("nats-url", "is not a list of URLs such as nats://nats.nats:4222") // not quoted: it may contain a password
			break
		}
	}
	if o.NATSCreds != "" {
		if _, err := os.Stat(o.NATSCreds); err != nil {
			bad("nats-creds", "%v", err)
		}
	}
	if o.StreamReplicas > 1 && o.NATSURL == "" {
		bad("stream-replicas", "%d replicas need a NATS cluster: set --nats-url", o.StreamReplicas)
	}
	if o.HistoryAge != 0 && (o.HistoryAge < bus.MinHistoryAge || o.HistoryAge > bus.MaxHistoryAge) {
		bad("history-age", "%s is neither 0 nor between %s and %s", o.HistoryAge, bus.MinHistoryAge, bus.MaxHistoryAge)
	}
}

func (o Options) validateLimits(bad badFlag) {
	within(
		bad,
		bounds[int]{"stream-replicas", o.StreamReplicas, 1, 5},
		bounds[int]{"dead-letters-per-provider", o.DeadPerProvider, 1, bus.MaxDeadPerProvider},
		bounds[int]{"namespace-quota", o.NamespaceQuota, 1, math.MaxInt},
		bounds[int]{"max-alerts-per-namespace", o.MaxAlertsPerNamespace, 0, math.MaxInt},
		bounds[int]{"max-receivers-per-namespace", o.MaxReceiversPerNamespace, 0, math.MaxInt},
		bounds[int]{"token-cache-max-size", o.TokenCacheSize, 0, 1_000_000},
		bounds[int]{"kube-api-burst", o.KubeAPIBurst, 1, math.MaxInt},
		bounds[int]{"concurrent", o.Concurrent, 1, math.MaxInt},
	)
	within(bad, bounds[int64]{"max-in-flight", o.MaxInFlight, 0, math.MaxInt64})
	within(
		bad,
		bounds[time.Duration]{"rate-limit-interval", o.RateLimitInterval, time.Second, 24 * time.Hour},
		bounds[time.Duration]{"dead-letter-replay", o.DeadLetterReplay, 0, 7 * 24 * time.Hour},
		bounds[time.Duration]{"delivery-max-age", o.DeliveryMaxAge, time.Second, alerts.DefaultMaxAge},
		bounds[time.Duration]{"trigger-interval", o.TriggerInterval, 100 * time.Millisecond, 10 * time.Minute},
		bounds[time.Duration]{"access-review-interval", o.AccessReviewInterval, time.Second, 24 * time.Hour},
		bounds[time.Duration]{"token-cache-max-duration", o.TokenCacheAge, 0, math.MaxInt64},
	)
	for _, r := range []struct {
		flag string
		rate float64
	}{
		{"receiver-rate", o.ReceiverRate},
		{"namespace-rate", o.NamespaceRate},
		{"client-failure-rate", o.ClientFailureRate},
		{"path-failure-rate", o.PathFailureRate},
		{"events-client-rate", o.EventsClientRate},
		{"events-namespace-rate", o.EventsNamespaceRate},
		{"slack-rate", o.SlackRate},
	} {
		if !(r.rate >= 0) || math.IsInf(r.rate, 1) {
			bad(r.flag, "%v is not a rate: use 0 for no limit", r.rate)
		}
	}
	if o.ReceiverRate > 0 && o.ReceiverBurst < 1 {
		bad("receiver-burst", "%d is not a positive number", o.ReceiverBurst)
	}
	if o.SlackRate > 0 && o.SlackBurst < 1 {
		bad("slack-burst", "%d is not a positive number", o.SlackBurst)
	}
	for _, q := range []struct {
		flag string
		qps  float32
	}{{"kube-api-qps", o.KubeAPIQPS}, {"secret-read-qps", o.SecretQPS}, {"trigger-qps", o.TriggerQPS}} {
		if !(q.qps > 0) {
			bad(q.flag, "%v is not a positive number", q.qps)
		}
	}
}

// bounds are those of the value of a flag.
type bounds[T int | int64 | time.Duration] struct {
	flag               string
	value, least, most T
}

// within reports the values that are outside of their bounds.
func within[T int | int64 | time.Duration](bad badFlag, all ...bounds[T]) {
	for _, b := range all {
		switch {
		case b.value < b.least:
			bad(b.flag, "%v is less than %v", b.value, b.least)
		case b.value > b.most:
			bad(b.flag, "%v is more than %v", b.value, b.most)
		}
	}
}

package app_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"notifier/internal/app"
	"notifier/internal/bus"
)

func TestDefaultOptionsAreValid(t *testing.T) {
	if err := app.DefaultOptions().Validate(); err != nil {
		t.Fatal(err)
	}
}

// T1: fails when Validate accepts --no-cross-namespace-refs=false.
func TestABadSettingIsAnErrorThatNamesItsFlag(t *testing.T) {
	for flag, change := range map[string]func(*app.Options){
		"events-addr":                 func(o *app.Options) { o.EventsAddr = "nowhere" },
		"receiverAddr":                func(o *app.Options) { o.ReceiverAddr = "" },
		"metrics-addr":                func(o *app.Options) { o.MetricsAddr = ":port-that-is-none" },
		"health-addr":                 func(o *app.Options) { o.HealthAddr = "1.2.3.4" },
		"pprof-addr":                  func(o *app.Options) { o.PprofAddr = ":6060" },
		"api-addr":                    func(o *app.Options) { o.APIAddr = "1.2.3.4" },
		"api-tls-cert-file":           func(o *app.Options) { o.APIAddr, o.APITLSKeyFile = ":1", "key.pem" },
		"api-tls-key-file":            func(o *app.Options) { o.APIAddr, o.APITLSCertFile = ":1", "cert.pem" },
		"api-audiences":               func(o *app.Options) { o.APIAddr, o.APIAudiences = ":1", []string{""} },
		"log-level":                   func(o *app.Options) { o.LogLevel = "loud" },
		"log-encoding":                func(o *app.Options) { o.LogEncoding = "xml" },
		"no-cross-namespace-refs":     func(o *app.Options) { o.NoCrossNamespaceRefs = false },
		"default-service-account":     func(o *app.Options) { o.DefaultServiceAccount = "" },
		"watch-all-namespaces":        func(o *app.Options) { o.WatchAllNamespaces = false },
		"allow-destinations":          func(o *app.Options) { o.AllowDestinations = []string{"10.0.0.1/33"} },
		"google-issuer":               func(o *app.Options) { o.GoogleIssuer = "http://accounts.google.com" },
		"max-alerts-per-namespace":    func(o *app.Options) { o.MaxAlertsPerNamespace = -1 },
		"max-receivers-per-namespace": func(o *app.Options) { o.MaxReceiversPerNamespace = -1 },
		"data-dir":                    func(o *app.Options) { o.DataDir = "" },
		"nats-url":                    func(o *app.Options) { o.NATSURL = "http://nats:4222" },
		"nats-creds":                  func(o *app.Options) { o.NATSCreds = "x" },
		"token-cache-max-size":        func(o *app.Options) { o.TokenCacheSize = -1 },
		"token-cache-max-duration":    func(o *app.Options) { o.TokenCacheAge = -time.Second },
		"stream-replicas":             func(o *app.Options) { o.StreamReplicas = 3 },
		"stream-replicas beyond 5":    func(o *app.Options) { o.NATSURL, o.StreamReplicas = "nats://nats:4222", 6 },
		"rate-limit-interval":         func(o *app.Options) { o.RateLimitInterval = 0 },
		"history-age":                 func(o *app.Options) { o.HistoryAge = 25 * time.Hour },
		"dead-letters-per-provider":   func(o *app.Options) { o.DeadPerProvider = bus.MaxDeadPerProvider + 1 },
		"dead-letter-replay":          func(o *app.Options) { o.DeadLetterReplay = -time.Second },
		"delivery-max-age":            func(o *app.Options) { o.DeliveryMaxAge = 25 * time.Hour },
		"namespace-quota":             func(o *app.Options) { o.NamespaceQuota = 0 },
		"trigger-interval":            func(o *app.Options) { o.TriggerInterval = time.Millisecond },
		"receiver-rate":               func(o *app.Options) { o.ReceiverRate = -1 },
		"receiver-burst":              func(o *app.Options) { o.ReceiverBurst = 0 },
		"slack-rate":                  func(o *app.Options) { o.SlackRate = -1 },
		"slack-burst":                 func(o *app.Options) { o.SlackBurst = 0 },
		"namespace-rate":              func(o *app.Options) { o.NamespaceRate = math.NaN() },
		"client-failure-rate":         func(o *app.Options) { o.ClientFailureRate = -1 },
		"path-failure-rate":           func(o *app.Options) { o.PathFailureRate = math.Inf(1) },
		"trusted-proxies":             func(o *app.Options) { o.TrustedProxies = []string{"10.0.0.1"} },
		"max-in-flight":               func(o *app.Options) { o.MaxInFlight = -1 },
		"max-body-bytes-in-flight":    func(o *app.Options) { o.MaxBodiesInFlight = 1 << 20 },
		"tls-cert-file":               func(o *app.Options) { o.TLSKeyFile = "key.pem" },
		"tls-key-file":                func(o *app.Options) { o.TLSCertFile = "cert.pem" },
		"events-client-rate":          func(o *app.Options) { o.EventsClientRate = -1 },
		"events-namespace-rate":       func(o *app.Options) { o.EventsNamespaceRate = -1 },
		"kube-api-qps":                func(o *app.Options) { o.KubeAPIQPS = 0 },
		"kube-api-burst":              func(o *app.Options) { o.KubeAPIBurst = 0 },
		"secret-read-qps":             func(o *app.Options) { o.SecretQPS = 0 },
		"trigger-qps":                 func(o *app.Options) { o.TriggerQPS = 0 },
		"access-review-interval":      func(o *app.Options) { o.AccessReviewInterval = 0 },
		"concurrent":                  func(o *app.Options) { o.Concurrent = 0 },
	} {
		t.Run(flag, func(t *testing.T) {
			o := app.DefaultOptions()
			change(&o)
			name, _, _ := strings.Cut(flag, " ")
			if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "--"+name+":") {
				t.Errorf("got %v, want an error that names --%s", err, flag)
			}
		})
	}
}

func TestABadNATSURLIsNotQuoted(t *testing.T) {
	o := app.DefaultOptions()
	o.NATSURL = "https://user:hunter2@nats"
	if err := o.Validate(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error without the password", err)
	}
}

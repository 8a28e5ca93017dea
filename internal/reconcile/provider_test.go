package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/reconcile/identity"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

func ref(name string) *v1.LocalObjectReference { return &v1.LocalObjectReference{Name: name} }

func TestAProvidersReadyConditionStatesItsFault(t *testing.T) {
	secrets := []*corev1.Secret{
		newSecret("full", "address", " https://hush.example.com/in \n", "token", "hush"),
		newSecret("headers", "headers", "X-A: [hush"), newSecret("ours", "headers", "via: hush\nHOST: hush\nX-A: hush"),
		newSecret("address", "address", "ftp://hush"),
		newSecret("nothing"),
		newSecret("certs", "ca.crt", "hush"),
	}
	for name, tc := range map[string]struct {
		change func(*v1.Provider)
		ready  string
		says   string
	}{
		"a good one is used": {
			change: func(*v1.Provider) {}, ready: "True Succeeded", says: "Provider initialized",
		},
		"one whose address is in its Secret is used": {
			change: func(p *v1.Provider) { p.Spec.Address, p.Spec.SecretRef = "", ref("full") },
			ready:  "True Succeeded",
		},
		"a time-out that is longer than notifier's": {
			change: func(p *v1.Provider) { p.Spec.Timeout = &metav1.Duration{Duration: 10 * time.Minute} },
			ready:  "True Succeeded", says: "Provider initialized; spec.timeout is cut to 5m0s",
		},
		"a time-out as long as notifier's": {
			change: func(p *v1.Provider) {
				p.Spec.Timeout, p.Spec.SecretRef = &metav1.Duration{Duration: 5 * time.Minute}, ref("ours")
			},
			ready: "True Succeeded", says: "Provider initialized; of the Secret's",
		},
		"a suspended one says so": {
			change: func(p *v1.Provider) { p.Spec.Suspend = true }, ready: "False Suspended", says: "spec.suspend",
		},
		"a type that is not built": {
			change: func(p *v1.Provider) { p.Spec.Type = "carrier-pigeon" },
			ready:  "False UnsupportedType", says: strings.Join(registry.Types(), ", "),
		},
		"a Secret that does not exist": {
			change: func(p *v1.Provider) { p.Spec.SecretRef = ref("absent") },
			ready:  "False SecretNotFound", says: `Secret "absent", named by spec.secretRef, does not exist`,
		},
		"a proxy's Secret that does not exist": {
			change: func(p *v1.Provider) { p.Spec.ProxySecretRef = ref("absent") },
			ready:  "False SecretNotFound", says: "spec.proxySecretRef",
		},
		"a certificate's Secret that does not exist": {
			change: func(p *v1.Provider) { p.Spec.CertSecretRef = ref("absent") },
			ready:  "False SecretNotFound", says: "spec.certSecretRef",
		},
		"no address": {
			change: func(p *v1.Provider) { p.Spec.Address = "" }, ready: "False InvalidConfig", says: "names no Secret that has one: write one of them",
		},
		"neither an address nor a key": {
			change: func(p *v1.Provider) { p.Spec.Address, p.Spec.Type = "", "generic-hmac" }, ready: "False InvalidConfig",
			says: "write one of them; the Secret's key token is missing",
		},
		"an address of the Secret that is none": {
			change: func(p *v1.Provider) { p.Spec.SecretRef = ref("address") }, ready: "False InvalidConfig", says: "scheme",
		},
		"headers that are ours": {
			change: func(p *v1.Provider) { p.Spec.SecretRef = ref("ours") },
			ready:  "True Succeeded", says: "Provider initialized; of the Secret's key headers these are ignored: Host, Via",
		},
		"headers that are no map": {
			change: func(p *v1.Provider) { p.Spec.SecretRef = ref("headers") },
			ready:  "False InvalidConfig", says: "headers is not a map of strings",
		},
		"a proxy's Secret without address": {
			change: func(p *v1.Provider) { p.Spec.ProxySecretRef = ref("nothing") },
			ready:  "False InvalidConfig", says: "spec.proxySecretRef",
		},
		"a certificate's Secret without a certificate": {
			change: func(p *v1.Provider) { p.Spec.CertSecretRef = ref("nothing") },
			ready:  "False InvalidConfig", says: `none of the keys "ca.crt"`,
		},
		"an authority that is none": {
			change: func(p *v1.Provider) { p.Spec.CertSecretRef = ref("certs") },
			ready:  "False InvalidConfig", says: "ca.crt (or caFile) holds no valid certificate",
		},
		"a reference that names no Secret": {
			change: func(p *v1.Provider) { p.Spec.SecretRef = ref("a/b") }, ready: "False ValidationFailed", says: "spec.secretRef.name",
		},
		"a spec that does not decode": {
			change: func(p *v1.Provider) {
				p.Annotations, p.Spec = map[string]string{kube.Undecodable: "true"}, v1.ProviderSpec{}
			},
			ready: "False ValidationFailed", says: "cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, settings{objects: []runtime.Object{newProvider("chat")}, secrets: secrets}, func(w *world) {
				w.events.take()
				w.apply("Provider", newProvider("chat", tc.change))
				message := w.ready("Provider", "chat", tc.ready)
				if !strings.Contains(message, tc.says) {
					t.Errorf("message: got %q, want %q in it", message, tc.says)
				}
				events := w.events.take()
				// E7: fails when a Secret's value, or an error that quotes it, is shown.
				for _, shown := range append(events, message) {
					if strings.Contains(shown, "hush") {
						t.Errorf("a secret shows in %q", shown)
					}
				}
				if len(events) != 1 {
					t.Errorf("events: %q", events)
				}
				d := w.options.Destinations.Get("team-a", "chat")
				ready := strings.HasPrefix(tc.ready, "True") || tc.ready == "False Suspended"
				if d == nil || d.UID != "uid-chat" || (d.Sender != nil) != ready || (d.NotReady == "") != ready {
					t.Errorf("destination: %+v", d)
				}
				if d != nil && d.Unsupported != strings.HasSuffix(tc.ready, v1.UnsupportedTypeReason) { // E2
					t.Errorf("its deliveries become dead letters: %t", d.Unsupported)
				}
			})
		})
	}
}

// Fails when spec.rateLimit is dropped or does not override the default, or when an omitted burst admits nothing. Fails when the default
// does not limit Slack, or limits other types.
func TestAProvidersLimitIsItsOwnOrSlacks(t *testing.T) {
	of := func(name, providerType, address string, limit *v1.ProviderRateLimit) *v1.Provider {
		return newProvider(name, func(p *v1.Provider) {
			p.Spec.Type, p.Spec.Address, p.Spec.Channel, p.Spec.RateLimit, p.Spec.Suspend = providerType, address, "general", limit, true
		})
	}
	const slack, other = "https://hooks.slack.com/services/x", "https://mattermost.example.com/hooks/x"
	s := settings{objects: []runtime.Object{
		of("slack", "slack", slack, nil), of("other", "slack", other, nil), of("hook", "generic", other, nil),
		of("own", "slack", slack, &v1.ProviderRateLimit{PerSecond: 20, Burst: 100}),
		of("burstless", "generic", other, &v1.ProviderRateLimit{PerSecond: 5}),
	}}
	s.change = func(o *Options) { o.Limits = registry.Limits{Slack: provider.Limit{Rate: 2, Burst: 7}} }
	play(t, s, func(w *world) {
		for name, want := range map[string]provider.Limit{
			"slack": {Rate: 2, Burst: 7}, "other": {}, "hook": {}, "own": {Rate: 20, Burst: 100}, "burstless": {Rate: 5, Burst: 5},
		} {
			d := w.options.Destinations.Get("team-a", name)
			if d.Limit != want.Rate || d.Burst != want.Burst || !d.Suspended {
				t.Errorf("%s: %+v", name, d)
			}
		}
	})
}

// Fails when a change of a Secret leaves the old Sender in use.
func TestAProviderFollowsItsSecret(t *testing.T) {
	p := newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("late") })
	play(t, settings{objects: []runtime.Object{p}}, func(w *world) {
		w.ready("Provider", "chat", "False SecretNotFound")
		pass(10 * time.Second)
		w.applySecret(newSecret("late", "token", "one"))
		w.ready("Provider", "chat", "True Succeeded")
		before := w.options.Destinations.Get("team-a", "chat").Sender
		w.applySecret(newSecret("late", "token", "two"))
		if after := w.options.Destinations.Get("team-a", "chat").Sender; after == nil || after == before {
			t.Error("the old sender is still in use")
		}
		w.remove("Provider", "chat")
		if w.options.Destinations.Get("team-a", "chat") != nil {
			t.Error("a deleted Provider is still there")
		}
		pass(10 * time.Second)
		if w.heldSecrets() != 0 {
			t.Error("its Secret is still held")
		}
	})
}

func TestHowSpecAndSecretsAreJoined(t *testing.T) {
	network := provider.Network{EnvironmentProxy: true}
	secretOf := func(data ...string) *secrets.Secret {
		s := &secrets.Secret{Found: true}
		for key, value := range newSecret("s", data...).Data {
			s.Data = append(s.Data, secrets.Value{Key: key, Value: string(value)})
		}
		return s
	}
	spec := func(change func(*v1.ProviderSpec)) *v1.Provider {
		return newProvider("p", func(p *v1.Provider) {
			p.Spec = v1.ProviderSpec{
				Type: "generic", Address: "spec-address", Channel: "c", Username: "spec-user", Proxy: "http://spec-proxy",
				Timeout: &metav1.Duration{Duration: time.Minute},
			}
			change(&p.Spec)
		})
	}
	base := provider.Config{
		Namespace: "team-a", UID: "uid-p",
		Type: "generic", Address: "spec-address", Channel: "c", Username: "spec-user", Timeout: time.Minute, Network: network,
		Proxy: provider.Proxy{Address: "http://spec-proxy"},
	}
	with := func(change func(*provider.Config)) provider.Config {
		c := base
		change(&c)
		return c
	}
	for name, tc := range map[string]struct {
		spec  func(*v1.ProviderSpec)
		given credentials
		want  provider.Config
	}{
		"the spec alone": {want: base},
		"no timeout is Flux's default": {
			spec: func(s *v1.ProviderSpec) { s.Timeout = nil },
			want: with(func(c *provider.Config) { c.Timeout = 15 * time.Second }),
		},
		"a timeout is 5 minutes at most, so that a send's place is free again": {
			spec: func(s *v1.ProviderSpec) { s.Timeout = &metav1.Duration{Duration: 6 * time.Minute} },
			want: with(func(c *provider.Config) { c.Timeout = 5 * time.Minute }),
		},
		"the Secret wins over the spec, trims the address and leaves the token as it is": {
			given: credentials{main: secretOf("address", " a\n", "username", "u", "password", "p", "token", " t\n", "headers", "A: b\nC: d",
				"proxy", "http://secret-proxy")},
			want: with(func(c *provider.Config) {
				c.Address, c.Username, c.Password, c.Token = "a", "u", "p", " t\n"
				c.SecretUsername = true
				c.Headers = map[string]string{"A": "b", "C": "d"}
				c.Proxy = provider.Proxy{Address: "http://secret-proxy"}
			}),
		},
		"only one of username and password drops nothing else": {
			given: credentials{main: secretOf("username", "u", "token", "t")},
			want:  with(func(c *provider.Config) { c.Username, c.SecretUsername, c.Token = "u", true, "t" }),
		},
		"a Secret without a username leaves that of the spec, which may be a name to show": {
			given: credentials{main: secretOf("token", "t")},
			want:  with(func(c *provider.Config) { c.Token = "t" }),
		},
		"the proxy's Secret wins over both": {
			given: credentials{main: secretOf("proxy", "http://x"), proxy: secretOf("address", "http://y", "username", "u", "password", "p")},
			want:  with(func(c *provider.Config) { c.Proxy = provider.Proxy{Address: "http://y", Username: "u", Password: "p"} }),
		},
		"certificates": {
			given: credentials{cert: secretOf("ca.crt", "ca", "tls.crt", "cert", "tls.key", "key", "caFile", "old")},
			want: with(func(c *provider.Config) {
				c.TLS = provider.TLS{CA: []byte("ca"), Cert: []byte("cert"), Key: []byte("key")}
			}),
		},
		"certificates under their older keys": {
			given: credentials{cert: secretOf("caFile", "ca", "certFile", "cert", "keyFile", "key")},
			want: with(func(c *provider.Config) {
				c.TLS = provider.TLS{CA: []byte("ca"), Cert: []byte("cert"), Key: []byte("key")}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.spec == nil {
				tc.spec = func(*v1.ProviderSpec) {}
			}
			got, err := providerConfig(spec(tc.spec), tc.given, network)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Network" },
				cmp.Comparer(func(a, b provider.Network) bool { return a.EnvironmentProxy == b.EnvironmentProxy }))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeadersOfImmenseLengthAreNotParsed(t *testing.T) {
	if _, err := parseHeaders([]byte(strings.Repeat("a", maxHeadersText+1))); err == nil {
		t.Error("parsed")
	}
}

// A few kilobytes of aliases can expand to gigabytes, and every Provider is compiled at start. Fails when the text is decoded by a parser
// that resolves them.
func TestHeadersAreOneFlatMapping(t *testing.T) {
	bomb := "a: &a \"" + strings.Repeat("<", 8000) + "\"\nb: [" + strings.Repeat("*a,", 3000) + "*a]"
	for name, text := range map[string]string{
		"aliases":   bomb,
		"an alias":  "a: &a x\nb: *a",
		"a merge":   "a: &a {x: y}\n<<: *a",
		"a list":    "- a",
		"nesting":   "a: {b: c}",
		"two equal": "a: b\na: c",
		"no YAML":   "a: [",
		"a scalar":  "text",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseHeaders([]byte(text)); !errors.Is(err, errHeaders) {
				t.Errorf("got %d headers and %v", len(got), err)
			}
		})
	}
	for name, text := range map[string]string{"nothing": "", "null": "null", "a comment": "# none"} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseHeaders([]byte(text)); err != nil || len(got) > 0 {
				t.Errorf("got %v and %v, want no headers", got, err)
			}
		})
	}
	got, err := parseHeaders([]byte("X-Number: 1\nX-Text: \"two words\""))
	if diff := cmp.Diff(map[string]string{"X-Number": "1", "X-Text": "two words"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Fails when the Secrets of a Provider are not read again on request, when they are read for each later change as well, or when the request
// causes an Event on definitions without a status.
func TestTheSecretsOfAProviderAreReadOnceForARequest(t *testing.T) {
	p := newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })
	s := settings{objects: []runtime.Object{p}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(v1.Resource("providers").GroupResource(), "x")
		})
	}
	play(t, s, func(w *world) {
		reads := len(gets(w))
		w.events.take()
		annotate := func(key, value string) {
			live := w.live("Provider", "chat").DeepCopyObject().(*v1.Provider)
			live.Annotations = map[string]string{v1.ReconcileRequestAnnotation: "now", key: value}
			if err := w.cluster.Tracker.Update(resources["Provider"], live, "team-a"); err != nil {
				t.Fatal(err)
			}
			w.settle()
		}
		annotate("other", "one")
		annotate("other", "two")
		if got := len(gets(w)); got != reads+1 {
			t.Errorf("reads of the Secret: got %d more, want 1", got-reads)
		}
		if events := w.events.take(); len(events) != 0 {
			t.Errorf("events: %q", events)
		}
	})
}

// Fails when a Provider that needs workload identity is accepted in an installation without it, or when the condition does not say how to
// enable it.
func TestWithoutTheGateTheConditionSaysHowToOpenIt(t *testing.T) {
	p := newProvider("hub", func(p *v1.Provider) {
		p.Spec.Type, p.Spec.Address, p.Spec.Channel, p.Spec.SecretRef, p.Spec.ServiceAccountName = "azureeventhub", "hub", "team", nil, "events"
	})
	open := identity.New(nil, 10, time.Hour)
	sender := func(o Options) (provider.Sender, *fault) {
		c := &providerController{kindOf: &kindOf[*v1.Provider]{Reconciler: &Reconciler{options: o}}}
		return c.sender(p, credentials{})
	}
	if _, f := sender(Options{}); f == nil || f.reason != v1.InvalidConfigReason ||
		!strings.Contains(f.message, "--feature-gates=ObjectLevelWorkloadIdentity=true") {
		t.Errorf("without: %+v", f)
	}
	made, f := sender(Options{Identities: open})
	if f != nil {
		t.Fatalf("with: %+v", f)
	}
	_ = made.Close()
	p.Spec.ServiceAccountName = "../../secrets"
	if _, f := sender(Options{Identities: open}); f == nil || !strings.Contains(f.message, "spec.serviceAccountName") {
		t.Errorf("no name: %+v", f)
	}
}

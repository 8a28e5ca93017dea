package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/fair"
	"notifier/internal/receiver/spiffe/spiffetest"
)

// T5. POSTed events have no signature. Fails when a flag of Flux 2.10 does not close its endpoint to clients without the SVID of a named peer,
// opens it to the peers of the other endpoint, or closes the probes.
func TestT5EventsAndWebhooksAreTakenFromNamedPeersAlone(t *testing.T) {
	runtime, home := spiffetest.NewRuntime(t), spiffetest.NewAuthority(t, "cluster.test")
	runtime.Give(t, home.SVID(t, "/flux/notification-controller", time.Hour), home)
	o := processOptions(t)
	o.EventsAddr, o.ReceiverAddr, o.HealthAddr = freeAddress(t), freeAddress(t), freeAddress(t)
	o.AuthorizedNotifiers, o.AuthorizedReceivers, o.SPIFFESocket = []string{"spiffe://self/flux/"}, []string{"spiffe://cluster.test/gateway"}, runtime.Address
	a := newApp(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, len(a.listeners))
	for _, l := range a.listeners {
		go func() { ended <- l.run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range a.listeners {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	for a.svid.Ready() != nil {
		if err := fair.Sleep(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}

	const events, webhooks, none = "events", "webhooks", ""
	for name, tc := range map[string]struct {
		svids []tls.Certificate
		takes string
	}{
		"a controller":   {[]tls.Certificate{home.SVID(t, "/flux/kustomize-controller", time.Hour)}, events},
		"the gateway":    {[]tls.Certificate{home.SVID(t, "/gateway", time.Hour)}, webhooks},
		"a tenant's Pod": {[]tls.Certificate{home.SVID(t, "/ns/team-a/sa/default", time.Hour)}, none},
		"without SVID":   {nil, none},
	} {
		client := http.Client{
			Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: tc.svids, InsecureSkipVerify: true}, DisableKeepAlives: true},
			Timeout:   20 * time.Second,
		}
		for endpoint, address := range map[string]string{events: o.EventsAddr, webhooks: o.ReceiverAddr} {
			resp, err := client.Post("https://"+address+"/", "", http.NoBody)
			if err == nil {
				_ = resp.Body.Close()
			}
			if taken := err == nil; taken != strings.Contains(tc.takes, endpoint) {
				t.Errorf("%s: its request for %s is taken: %t, %v", name, endpoint, taken, err)
			}
		}
		resp, err := client.Get("http://" + o.HealthAddr + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Fails when peers are accepted that the process could not tell from others, or beside another certificate.
func TestFlagsOfPeersNeedTheWorkloadAPI(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"SPIFFE_ENDPOINT_SOCKET":           func(o *Options) { o.SPIFFESocket = "" },
		"environment variable SPIFFE_ENDP": func(o *Options) { o.SPIFFESocket = "/run/spire/api.sock" },
		"begins with a slash":              func(o *Options) { o.SPIFFESocket = "unix://run/spire/api.sock" },
		"--authorized-receiver-spiffe-id":  func(o *Options) { o.AuthorizedReceivers = []string{"spiffe://self/gateway", "gateway"} },
		"--tls-cert-file exclude":          func(o *Options) { o.TLSCertFile, o.TLSKeyFile = "tls.crt", "tls.key" },
		"":                                 func(*Options) {},
	} {
		o := DefaultOptions()
		o.AuthorizedNotifiers, o.AuthorizedReceivers = []string{"spiffe://self/flux/"}, []string{"spiffe://self/gateway"}
		o.SPIFFESocket = "unix:///run/spire/api.sock"
		change(&o)
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

// Fails when two starts with the same flags say different things.
func TestTheErrorsOfPeersHaveAnOrder(t *testing.T) {
	o := DefaultOptions()
	o.AuthorizedNotifiers, o.AuthorizedReceivers = []string{"spiffe://self/flux/"}, []string{"spiffe://self/gateway"}
	want := o.Validate()
	for range 50 {
		if got := o.Validate(); want == nil || got.Error() != want.Error() {
			t.Fatalf("got\n%v\nthen\n%v", want, got)
		}
	}
}

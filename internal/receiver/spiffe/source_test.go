package spiffe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"notifier/internal/fair"
	"notifier/internal/receiver/server"
	"notifier/internal/receiver/spiffe/spiffetest"
)

const testTimeout = 20 * time.Second

// world is a listener to which only the controller of a trust domain may connect.
type world struct {
	runtime *spiffetest.Runtime
	home    *spiffetest.Authority
	source  *Source
	url     string
	log     *lines
}

// lines is a log that is written to by several goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a function until the test ends, which fails if that returns an error.
func start(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// newWorld serves with an SVID of the home trust domain, unless the runtime is to give none.
func newWorld(t *testing.T, hasSVID bool) *world {
	t.Helper()
	w := &world{runtime: spiffetest.NewRuntime(t), home: spiffetest.NewAuthority(t, "home"), log: &lines{}}
	w.source = New(w.runtime.Address, slog.New(slog.NewTextHandler(w.log, nil)), prometheus.NewRegistry())
	if hasSVID {
		w.runtime.Give(t, w.home.SVID(t, "/notifier", time.Hour), w.home)
	}
	start(t, w.source.Run)
	if hasSVID {
		await(t, func() bool { return w.source.Ready() == nil })
	}
	peers, err := ParsePeers([]string{"spiffe://self/controller", "spiffe://friend/controllers/"})
	if err != nil {
		t.Fatal(err)
	}
	o := server.DefaultOptions()
	o.Name, o.Addr, o.Log, o.Registerer = "events", "127.0.0.1:0", slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	o.TLS = w.source.Config("events", peers)
	o.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusAccepted) })
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.url = s.Addr().String()
	start(t, s.Run)
	return w
}

// await waits until a condition is true.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); {
		if time.Since(began) > testTimeout {
			t.Fatal("it does not become true")
		}
		_ = fair.Sleep(t.Context(), time.Millisecond)
	}
}

// connect makes a request with a client's SVIDs on a connection of its own. It returns the server's ID.
func (w *world) connect(t *testing.T, svids ...tls.Certificate) (id string, err error) {
	t.Helper()
	config := &tls.Config{
		Certificates: svids, InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1),
		VerifyConnection: func(s tls.ConnectionState) error { id = s.PeerCertificates[0].URIs[0].String(); return nil },
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: testTimeout}
	for range 2 { // the second time with the session of the first, if the server offers one
		resp, err := client.Post("https://"+w.url, "", http.NoBody)
		if err != nil {
			return "", err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted || resp.TLS.DidResume {
			t.Errorf("%d, resumed: %t", resp.StatusCode, resp.TLS.DidResume)
		}
	}
	return id, nil
}

// refused checks that a client cannot connect.
func (w *world) refused(t *testing.T, name string, svids ...tls.Certificate) {
	t.Helper()
	if _, err := w.connect(t, svids...); err == nil {
		t.Errorf("%s: it is answered", name)
	}
}

// T5. Fails when a client is answered without an X509-SVID of a peer that may connect, or when one with such an SVID is refused.
func TestT5OnlyNamedPeersConnect(t *testing.T) {
	w := newWorld(t, true)
	id, err := w.connect(t, w.home.SVID(t, "/controller", time.Hour))
	if err != nil || id != "spiffe://home/notifier" {
		t.Fatalf("a peer reaches %q: %v", id, err)
	}
	forged, foreign := spiffetest.NewAuthority(t, "home"), spiffetest.NewAuthority(t, "friend")
	for name, svids := range map[string][]tls.Certificate{
		"no SVID":                   nil,
		"another workload":          {w.home.SVID(t, "/tenant", time.Hour)},
		"a longer path":             {w.home.SVID(t, "/controller/2", time.Hour)},
		"an authority of that name": {forged.SVID(t, "/controller", time.Hour)},
		"an unknown trust domain":   {foreign.SVID(t, "/controllers/a", time.Hour)},
		"an expired SVID":           {w.home.SVID(t, "/controller", -time.Minute)},
		"the authority's own":       {w.home.Own()},
		"no ID":                     {w.home.Certificate(t, time.Hour)},
		"two IDs":                   {w.home.Certificate(t, time.Hour, "spiffe://home/controller", "spiffe://home/tenant")},
	} {
		w.refused(t, name, svids...)
	}
	plain := http.Client{Timeout: testTimeout}
	if resp, err := plain.Post("http://"+w.url, "", http.NoBody); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("in clear text: %s", resp.Status)
		}
	}
	if n := testutil.ToFloat64(w.source.refused); n != 8 {
		t.Errorf("%v refusals are counted, want those of the 8 that have a certificate and 0 of those without", n)
	}
	if n := strings.Count(w.log.String(), "refused"); n != 1 {
		t.Errorf("%d lines in a minute:\n%s", n, w.log)
	}
}

// Fails when the listener serves before it can tell peers from others, or when the SVIDs and authorities of a later answer are not used.
func TestT5TheListenerFollowsTheWorkloadAPI(t *testing.T) {
	w := newWorld(t, false)
	svid := w.home.SVID(t, "/controller", time.Hour)
	w.refused(t, "the process has no SVID", svid)
	if err := w.source.Ready(); !errors.Is(err, errNoSVID) {
		t.Errorf("without an SVID: %v", err)
	}
	w.runtime.Give(t, w.home.SVID(t, "/notifier", time.Hour), w.home)
	await(t, func() bool { return w.source.Ready() == nil })
	if _, err := w.connect(t, svid); err != nil {
		t.Errorf("a peer: %v", err)
	}

	next, friend := spiffetest.NewAuthority(t, "home"), spiffetest.NewAuthority(t, "friend")
	w.runtime.Give(t, next.SVID(t, "/next", time.Hour), next, friend)
	await(t, func() bool { svid, _ := w.source.GetX509SVID(); return svid.ID.Path() == "/next" })
	w.refused(t, "its authority is trusted no more", svid)
	for name, svid := range map[string]tls.Certificate{
		"of the next authority": next.SVID(t, "/controller", time.Hour), "of a federated trust domain": friend.SVID(t, "/controllers/a", time.Hour),
	} {
		if id, err := w.connect(t, svid); err != nil || id != "spiffe://home/next" {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
	w.refused(t, "of a federated trust domain, whose ID names a peer of home", friend.SVID(t, "/controller", time.Hour))

	w.runtime.Give(t, next.SVID(t, "/expired", -time.Minute), next)
	await(t, func() bool { err := w.source.Ready(); return err != nil && strings.Contains(err.Error(), "expired") })
	w.refused(t, "the SVID of the process has expired", next.SVID(t, "/controller", time.Hour))
}

// Fails when an answer after which the library gives up ends the following for good: with the next SVID no peer could connect.
func TestAWorkloadAPIThatEndsTheStreamIsAskedAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Canceled, codes.InvalidArgument} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			w.runtime.Fail(code)
			await(t, func() bool { return strings.Contains(w.log.String(), "gives no X509-SVID") })
			if _, err := w.connect(t, w.home.SVID(t, "/controller", time.Hour)); err != nil {
				t.Errorf("with the SVID that it has: %v", err)
			}
			w.runtime.Give(t, w.home.SVID(t, "/next", time.Hour), w.home)
			await(t, func() bool { svid, _ := w.source.GetX509SVID(); return svid.ID.Path() == "/next" })
		})
	}
}

// Fails when the process counts as ready though it can verify no client of its own trust domain.
func TestASourceWithoutAnAuthorityOfItsOwnTrustDomainIsNotReady(t *testing.T) {
	w := newWorld(t, false)
	svid := w.home.SVID(t, "/notifier", time.Hour)
	w.runtime.Give(t, svid)
	await(t, func() bool { return w.source.current.Load() != nil })
	if _, err := w.connect(t, w.home.SVID(t, "/controller", time.Hour)); err == nil {
		t.Error("a client is answered")
	}
	if err := w.source.Ready(); err == nil || !strings.Contains(err.Error(), `"home"`) {
		t.Errorf("ready: %v", err)
	}
	w.runtime.Give(t, svid, w.home)
	await(t, func() bool { return w.source.Ready() == nil })
}

package limits

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
	"notifier/test/load"
	"notifier/test/sender"
)

const (
	floodToken = "flood"
	// many is the number of clients, and of deliveries, that an attacker invents.
	many = 100_000
	// dawdlers are more connections than the listener allows, half of them slow with the headers and half with the body.
	dawdlers = 1200
	large    = 25 << 20
	// mostTargets is the number of objects that a Receiver may name. pairs is the number of pairs of Receivers that each
	// name as many.
	mostTargets = 64
	pairs       = 2
)

// attacker is the one address of the attacks, proxy the trusted proxy's.
var (
	attacker = netip.MustParseAddr("127.0.0.66")
	proxy    = netip.MustParseAddr("127.0.0.77")
)

// attack is one way to overload the webhook endpoint.
type attack struct {
	name string
	// floods and slow attack the server at a base URL; either may be nil.
	floods func(base string) []load.Flood
	slow   func(base string) []load.Slow
	// triggers is the number of objects that get reconcile requests from its webhooks, which are authentic.
	triggers int
	// waits says that the other tenant's webhooks wait for this one's write to the disk; the bare handler writes
	// nothing.
	waits bool
	// holds checks further promises about the attack; may be nil.
	holds func(t *fixture, answers load.Answers)
}

// victims are the attacked Receivers, all in one namespace.
type victims struct {
	// hot is of type github, cel has filters of maximal cost, oidc accepts tokens of the issuer.
	hot, cel, oidc string
	// wide are pairs of Receivers for as many objects as a Receiver may have.
	wide   []string
	issuer *sender.Issuer
}

// newVictims makes the attacked Receivers.
func (s *fixture) newVictims() victims {
	s.Helper()
	issuer, err := sender.NewIssuer()
	s.Must(err)
	s.Cleanup(func() { _ = issuer.Close() })
	v := victims{issuer: issuer, hot: s.Receiver(s.Tenant, "hot", floodToken, "")}
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	resource := `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app"%s}`
	// An expression is limited in work and all of a webhook's in time: together these take the maximum.
	expensive := fmt.Sprintf(resource, `,"filter":"req.n.map(i, i).size() > 0"`)
	v.cel, err = s.Tenant.Receiver(s.Ctx, "cel", floodToken, `{"type":"generic-hmac","secretRef":{"name":"cel-token"},
		"resources":[`+strings.TrimSuffix(strings.Repeat(expensive+",", 16), ",")+`]}`)
	s.Must(err)
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "oidc", nil, fmt.Sprintf(`{"type":"generic-oidc","resources":[`+fmt.Sprintf(resource, "")+`],
		"oidcProviders":[{"issuerURL":%q,"validations":[{"expression":"claims.sub == 'team'","message":"who are you"}]}]}`, issuer.URL)))
	v.oidc, err = s.Tenant.ReceiverPath(s.Ctx, "oidc")
	s.Must(err)
	for i := range 2 * pairs {
		v.wide = append(v.wide, s.wide(fmt.Sprintf("wide-%d", i), i/2))
	}
	return v
}

// wide makes a Receiver of the pair and its objects, and returns its path. A pending trigger of one Receiver does not
// cover one of the other Receiver for the same object, so each webhook is written for each object.
func (s *fixture) wide(name string, pair int) string {
	s.Helper()
	var g errgroup.Group
	var resources []string
	for i := range mostTargets {
		object := fmt.Sprintf("wide-%d-%d", pair, i)
		resources = append(resources, `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"`+object+`"}`)
		g.Go(func() error { return s.Tenant.Object(s.Ctx, "GitRepository", object, nil, "") })
	}
	s.Must(g.Wait())
	path, err := s.Tenant.Receiver(s.Ctx, name, floodToken, `{"type":"github","secretRef":{"name":"`+name+`-token"},
		"resources":[`+strings.Join(resources, ",")+`]}`)
	s.Must(err)
	return path
}

// attacks are all ways to overload the webhook endpoint from one address over HTTP/1.
func (s *fixture) attacks(v victims) []attack {
	good := env.GitHubHeader(floodToken, "push", env.GitHubPush)
	bad := env.GitHubHeader("wrong", "push", env.GitHubPush)
	flood := func(connections int, requests func(base string) [][]byte) func(string) []load.Flood {
		return func(base string) []load.Flood {
			return []load.Flood{{Base: base, From: attacker, Connections: connections, Requests: requests(base)}}
		}
	}
	repeated := func(connections int, path string, header http.Header, body string) func(string) []load.Flood {
		return flood(connections, func(base string) [][]byte { return s.requests(base, []string{path}, header, body) })
	}
	gzipped := http.Header{"Content-Encoding": {"gzip"}}
	wide := http.Header{"X-Wide": {strings.Repeat("x", 1<<20)}}
	document := `{"n":[` + strings.Repeat("1,", 200_000) + `1],"t":"` + strings.Repeat("x", 3<<20-500_000) + `"}`
	fetched := 0
	return []attack{
		{name: "unknown paths", floods: flood(64, func(base string) [][]byte {
			return s.requests(base, nowhere(500), bad, env.GitHubPush)
		})},
		{name: "bad signatures", floods: repeated(64, v.hot, bad, env.GitHubPush)},
		{name: "valid signatures, 100,000 deliveries", triggers: 1, floods: func(base string) []load.Flood {
			return []load.Flood{{Base: base, From: attacker, Connections: 64, Count: many, Requests: s.deliveries(base, v.hot, good)}}
		}, holds: func(t *fixture, answers load.Answers) {
			if n := answers[http.StatusOK] + answers[http.StatusAccepted]; n != many {
				t.Errorf("%d of %d valid webhooks were accepted: %v", n, many, answers)
			}
		}},
		{name: "webhooks for 128 objects, each of two Receivers", triggers: pairs * mostTargets, waits: true, floods: flood(64, func(base string) [][]byte {
			return s.requests(base, v.wide, good, env.GitHubPush)
		})},
		{name: "100,000 clients", floods: func(base string) []load.Flood {
			return []load.Flood{{Base: base, From: proxy, Connections: 64, Count: many, Requests: s.clients(base)}}
		}, holds: func(t *fixture, answers load.Answers) {
			// Each is new, so each is within its budget.
			if answers[http.StatusNotFound] != many {
				t.Errorf("%d clients were answered %v", many, answers)
			}
		}},
		{name: "25 MiB bodies", floods: func(base string) []load.Flood {
			body := strings.Repeat("x", large)
			announced := append(s.requests(base, []string{v.hot}, good, body), s.requests(base, []string{v.cel}, hmacHeader("x"), body)...)
			unannounced := [][]byte{chunked(v.hot, good, body), chunked(v.cel, hmacHeader("x"), body), chunked(nowhere(1)[0], good, body)}
			return []load.Flood{
				{Base: base, From: attacker, Connections: 16, Requests: announced},
				{Base: base, From: attacker, Connections: 48, Requests: unannounced},
			}
		}},
		{name: "decompression bombs", floods: repeated(64, v.cel, gzipped, bomb())},
		{name: "1 MiB headers", floods: repeated(64, v.hot, wide, "{}")},
		{name: "expensive filters", floods: func(base string) []load.Flood {
			// All answers are awaited: most are refusals at once, and the evaluated ones take their time.
			requests := s.requests(base, []string{v.cel}, hmacHeader(document), document)
			return []load.Flood{{Base: base, From: attacker, Connections: 16, Count: 32, Requests: requests}}
		}, holds: func(t *fixture, answers load.Answers) {
			if answers[http.StatusOK]+answers[http.StatusAccepted] == 0 {
				t.Errorf("no filter was evaluated: %v", answers)
			}
		}},
		{name: "forged tokens", floods: flood(64, func(base string) [][]byte {
			var all [][]byte
			for i := range 500 {
				token := v.issuer.Forge("nobody's-"+strconv.Itoa(i), "notification-controller", nil)
				all = append(all, s.requests(base, []string{v.oidc}, sender.OIDC(token, "{}").Header, "{}")...)
			}
			return all
		}), holds: func(t *fixture, _ load.Answers) {
			discoveries, keys := v.issuer.Requests()
			before := fetched
			fetched = discoveries + keys
			t.Logf("the issuer was asked %d times for its configuration and %d times for its keys", discoveries, keys)
			if asked := fetched - before; asked > 4 { // twice: there are 10 s between two fetches
				t.Errorf("the issuer was asked %d times", asked)
			}
		}},
		{name: "slow headers and slow bodies, 1,200 connections", slow: func(base string) []load.Slow {
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n", v.hot)
			return []load.Slow{
				{Base: base, From: attacker, Connections: dawdlers / 2, Begin: []byte(head + narrow(8<<10)), Drip: []byte("x:\r\n"), Every: 500 * time.Millisecond},
				{
					Base: base, From: attacker, Connections: dawdlers / 2,
					Begin: []byte(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", v.cel, 3<<20, strings.Repeat("x", 100_000))),
					Drip:  []byte("x"), Every: 500 * time.Millisecond,
				},
			}
		}},
	}
}

// nowhere returns paths that no Receiver serves.
func nowhere(n int) []string {
	var paths []string
	for i := range n {
		paths = append(paths, env.HookPath(strconv.Itoa(i), "nobody", "nowhere"))
	}
	return paths
}

// deliveries returns webhooks that each have an ID of their own.
func (s *fixture) deliveries(base, path string, header http.Header) [][]byte {
	s.Helper()
	all := make([][]byte, 0, many)
	header = header.Clone()
	for i := range many {
		header.Set("X-GitHub-Delivery", strconv.Itoa(i))
		all = append(all, s.requests(base, []string{path}, header, env.GitHubPush)...)
	}
	return all
}

// clients returns webhooks that each come from a client of their own, according to a proxy.
func (s *fixture) clients(base string) [][]byte {
	s.Helper()
	all := make([][]byte, 0, many)
	for i := range many {
		client := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		all = append(all, s.requests(base, nowhere(1), http.Header{"X-Forwarded-For": {client.String()}}, "")...)
	}
	return all
}

// hmacHeader returns the headers of a webhook of type generic-hmac.
func hmacHeader(body string) http.Header {
	return sender.GenericHMAC(floodToken, "sha256", body).Header
}

// chunked composes a request without the length of its body.
func chunked(path string, header http.Header, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n", path)
	_ = header.Write(&b) // a buffer accepts every write
	fmt.Fprintf(&b, "\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	return b.Bytes()
}

// bomb returns a body of 64 KiB that inflates to 64 MiB.
func bomb() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 64 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	return b.String()
}

// narrow returns headers of about size bytes that take the most memory: many and short.
func narrow(size int) string {
	var b strings.Builder
	for i := 36; b.Len() < size; i++ {
		b.WriteString(strconv.FormatInt(int64(i), 36) + ":\r\n")
	}
	return b.String()
}

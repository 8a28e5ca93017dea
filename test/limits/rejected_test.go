package limits

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/load"
)

// T5: fails when a rejected webhook leads to a read of a Secret or a Receiver, to a status write of its own or an Event,
// or when it is published before it is checked.
func TestT5RejectedWebhooksCostNoRequestAndNoWrite(t *testing.T) {
	s := alone(t)
	path := s.Receiver(s.Tenant, "app", "t", `,"events":["push"]`)
	s.Must(s.Tenant.Secret(s.Ctx, "closed-token", map[string]string{"token": "t"}))
	s.Must(s.Tenant.Object(s.Ctx, "Receiver", "closed", nil, `{"type":"github","secretRef":{"name":"closed-token"},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app","namespace":"kube-system"}]}`))
	s.ready("Receiver", "closed", metav1.ConditionFalse, "CrossNamespaceDenied")
	closed := env.HookPath("t", "closed", s.Tenant.Namespace)

	audit, err := s.System.Settled(s.Ctx)
	s.Must(err)
	triggers, err := s.Metric(s.Ctx, "notifier_apply_triggers_total")
	s.Must(err)
	written := s.written()

	begin := time.Now()
	sent := s.reject(
		rejected{"unknown path", nowhere(100), env.GitHubPush, env.GitHubHeader("t", "push", env.GitHubPush), 4000},
		rejected{"foreign path", []string{closed}, env.GitHubPush, env.GitHubHeader("t", "push", env.GitHubPush), 4000},
		rejected{"bad signature", []string{path}, env.GitHubPush, env.GitHubHeader("wrong", "push", env.GitHubPush), 4000},
		rejected{"too large", []string{path}, strings.Repeat("x", 3<<20+1), http.Header{}, 100},
	)
	s.ledToNothing(audit, begin, env.RefusalGap, sent)
	// The sender knows the token, so its webhooks are reported more often.
	sent += s.reject(rejected{"event not listed", []string{path}, env.GitHubPush, env.GitHubHeader("t", "issues", env.GitHubPush), 4000})
	s.ledToNothing(audit, begin, env.ReportGap, sent)
	// A publish is a sync of its own, 4 KiB and more.
	if perWebhook := float64(s.written()-written) / float64(sent); perWebhook > 400 {
		t.Errorf("%d rejected webhooks wrote %.0f bytes each to disk", sent, perWebhook)
	}
	// The one accepted webhook, last on the same bus, is the only trigger.
	pushed := time.Now()
	s.Push(path, "t", http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", pushed)
	s.Must(env.Eventually(s.Within(10*time.Second), func(ctx context.Context) error {
		now, err := s.Metric(ctx, "notifier_apply_triggers_total")
		if err == nil && now != triggers+1 {
			err = fmt.Errorf("%v triggers were taken from the bus, want 1", now-triggers)
		}
		return err
	}))
}

// rejected are webhooks of one rejected kind, to the paths in turn.
type rejected struct {
	what   string
	paths  []string
	body   string
	header http.Header
	count  int
}

// reject sends webhooks that must be rejected, and returns the number of answers.
func (s *fixture) reject(all ...rejected) (sent int) {
	s.Helper()
	for _, r := range all {
		answers := s.flood(r.count, r.paths, r.header, r.body)
		s.Logf("%s: %v", r.what, answers)
		for status := range answers {
			if status/100 != 4 {
				s.Errorf("%s: got %d", r.what, status)
			}
		}
		sent += answers.Total()
	}
	return sent
}

// ledToNothing fails the test if webhooks that were sent since begin led to requests to the API server, other than to reports at
// least gap apart.
func (s *fixture) ledToNothing(audit *env.Audit, begin time.Time, gap time.Duration, sent int) {
	s.Helper()
	requests, err := audit.Find(env.Ours)
	s.Must(err)
	led, err := env.WithoutReports(requests, time.Since(begin), gap)
	s.Must(err)
	for _, r := range led {
		if of := r.ObjectRef.Namespace; of == "" || of == s.Tenant.Namespace { // not an Alert of another test, which is reconciled again
			s.Errorf("%d rejected webhooks led to the request %s %s", sent, r.Verb, r.RequestURI)
		}
	}
}

// written returns the number of bytes that the process has written to disk.
func (s *fixture) written() int64 {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.Process().PID()))
	s.Must(err)
	for line := range strings.SplitSeq(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			s.Must(err)
			return n
		}
	}
	s.Fatal("no write_bytes")
	return 0
}

// flood sends count requests over some connections, to the paths in turn.
func (s *fixture) flood(count int, paths []string, header http.Header, body string) load.Answers {
	s.Helper()
	answers, err := load.Flood{Base: s.HooksURL, Requests: s.requests(s.HooksURL, paths, header, body), Connections: 16, Count: count}.Run(s.Ctx)
	s.Must(err)
	return answers
}

// requests composes a webhook to each of the paths of the server at base.
func (s *fixture) requests(base string, paths []string, header http.Header, body string) [][]byte {
	s.Helper()
	var requests [][]byte
	for _, path := range paths {
		req, err := load.Request(base, path, header, body)
		s.Must(err)
		requests = append(requests, req)
	}
	return requests
}

// T5: fails when an unknown path is answered before the body is read and a foreign one after, when only one of them
// checks methods, or when each is charged to a different budget.
func TestT5AnUnknownAndAForeignPathAreAnsweredAlike(t *testing.T) {
	s := alone(t)
	other := s.NewTenant()
	s.Must(other.Secret(s.Ctx, "closed-token", map[string]string{"token": "t"}))
	s.Must(other.Object(s.Ctx, "Receiver", "closed", nil, `{"type":"generic","secretRef":{"name":"closed-token"},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app","namespace":"kube-system"}]}`))
	s.Condition(other, "Receiver", "closed", "Ready", metav1.ConditionFalse, "CrossNamespaceDenied")
	foreign, unknown := env.HookPath("t", "closed", other.Namespace), env.HookPath("x", "closed", other.Namespace)
	var get http.Request
	for i, head := range []string{
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n{}",
		"GET %s HTTP/1.1\r\nHost: x\r\n\r\n",
		"OPTIONS %s HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST %s HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
	} {
		// Each from an address of its own, so that both have a full budget.
		a := s.dialogue(netip.AddrFrom4([4]byte{127, 0, 1, byte(2*i + 1)}), fmt.Sprintf(head, foreign), &get)
		b := s.dialogue(netip.AddrFrom4([4]byte{127, 0, 1, byte(2*i + 2)}), fmt.Sprintf(head, unknown), &get)
		if a != b {
			t.Errorf("%q: a foreign path is answered\n%s\nand an unknown one\n%s", head, a, b)
		}
		if !strings.HasPrefix(a, "HTTP/1.1 404") && !strings.HasPrefix(a, "HTTP/1.0 404") {
			t.Errorf("%q: got %q", head, a)
		}
	}
	// Beyond their budget their answers are equal as well. It refills slowly, so single answers may differ.
	var told [2]map[string]bool
	for i, path := range []string{foreign, unknown} {
		told[i] = map[string]bool{}
		for range 200 {
			told[i][s.dialogue(netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)}), fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path), &get)] = true
		}
	}
	if !maps.Equal(told[0], told[1]) || len(told[0]) != 2 {
		t.Errorf("over its budget a foreign path is answered\n%v\nand an unknown one\n%v", told[0], told[1])
	}
}

// dialogue sends a request from an address and returns the answer in wire format, without its date.
func (s *fixture) dialogue(from netip.Addr, request string, as *http.Request) string {
	s.Helper()
	u, err := url.Parse(s.HooksURL)
	s.Must(err)
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := d.DialContext(s.Ctx, "tcp", u.Host)
	s.Must(err)
	defer conn.Close()
	s.Must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	_, err = io.WriteString(conn, request)
	s.Must(err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), as)
	s.Must(err)
	defer resp.Body.Close()
	resp.Header.Del("Date")
	text, err := httputil.DumpResponse(resp, true)
	s.Must(err)
	return string(text)
}

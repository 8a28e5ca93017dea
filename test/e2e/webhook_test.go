package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

// maxBody is the size in bytes of the greatest body that either endpoint accepts.
const maxBody = 3 << 20

// sizedBody returns a JSON document of exactly size bytes.
func sizedBody(size int) string {
	const frame = `{"pad":""}`
	return `{"pad":"` + strings.Repeat("x", size-len(frame)) + `"}`
}

// hook sends a request to a path of the webhook endpoint.
func (s *fixture) hook(method, path string, header http.Header, body string) env.Response {
	s.Helper()
	resp, err := s.Do(s.Ctx, method, s.HooksURL+path, header, []byte(body))
	s.Must(err)
	return resp
}

// repeated sends a request again while the answer is 503, as its sender does: a machine under load may not store it in time.
func (s *fixture) repeated(send func() env.Response) (got env.Response) {
	s.Helper()
	s.Must(env.Eventually(s.Within(soon), func(context.Context) error {
		if got = send(); got.Status == http.StatusServiceUnavailable {
			return fmt.Errorf("got 503 %q", got.Body)
		}
		return nil
	}))
	return got
}

// mustTell fails the test unless the answer has the status and its body contains the words.
func (s *fixture) mustTell(what string, got env.Response, status int, words ...string) {
	s.Helper()
	if got.Status != status {
		s.Errorf("%s: got %d %q, want %d", what, got.Status, got.Body, status)
	}
	for _, w := range words {
		if !strings.Contains(got.Body, w) {
			s.Errorf("%s: the answer %q does not say %q", what, got.Body, w)
		}
	}
}

// neverRequested proves that no earlier trigger of the object led to a request: a webhook of another Receiver, later on
// the same bus, has been applied, so an earlier one would have been.
func (s *fixture) neverRequested(t *env.Tenant, kind, name string) {
	s.Helper()
	s.Must(t.Object(s.Ctx, "OCIRepository", "marker", nil, ""))
	path, err := t.Receiver(s.Ctx, "marker", "m", `{"type":"generic","secretRef":{"name":"marker-token"},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"OCIRepository","name":"marker"}]}`)
	s.Must(err)
	sent := time.Now()
	s.mustTell("marker", s.hook(http.MethodPost, path, nil, "{}"), http.StatusOK)
	s.Requested(t, "OCIRepository", "marker", sent)
	at, err := t.Requested(s.Ctx, kind, name)
	s.Must(err)
	if !at.IsZero() {
		s.Errorf("%s %s was asked to reconcile at %s", kind, name, at)
	}
}

// Fails when a failed check is only logged, or when the answer does not give its reason to a sender that knows the path.
func TestAWebhookThatIsNotAuthenticIsRefusedWithAReasonAndTriggersNothing(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "right", "")
	unsigned := env.GitHubHeader("right", "push", env.GitHubPush)
	unsigned.Del("X-Hub-Signature-256")
	cut := env.GitHubHeader("right", "push", env.GitHubPush)
	cut.Set("X-Hub-Signature-256", cut.Get("X-Hub-Signature-256")[:40])
	noType := env.GitHubHeader("right", "push", env.GitHubPush)
	noType.Set("Content-Type", "text/plain")
	for name, tc := range map[string]struct {
		header http.Header
		reason string
	}{
		"signed with another token": {env.GitHubHeader("wrong", "push", env.GitHubPush), "signature mismatch"},
		"signed for another body":   {env.GitHubHeader("right", "push", "{}"), "signature mismatch"},
		"not signed":                {unsigned, "signature missing"},
		"a signature cut short":     {cut, "signature"},
		"another content type":      {noType, "content type"},
	} {
		s.mustTell(name, s.hook(http.MethodPost, path, tc.header, env.GitHubPush), http.StatusBadRequest, tc.reason)
	}
	s.neverRequested(s.Tenant, "GitRepository", "app")
	s.Push(path, "right", http.StatusOK)
}

// Fails when a limit is off by one byte, or counts only the announced Content-Length.
func TestABodyOf3MiBIsTakenAndOneByteMoreIsRefused(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	fits, over := sizedBody(maxBody), sizedBody(maxBody+1)
	sent := time.Now()
	s.mustTell("3 MiB", s.hook(http.MethodPost, path, env.GitHubHeader("t", "push", fits), fits), http.StatusOK)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
	s.mustTell("3 MiB and a byte", s.hook(http.MethodPost, path, env.GitHubHeader("t", "push", over), over),
		http.StatusRequestEntityTooLarge, "3 MiB")
	chunked := func(body string) env.Response {
		req, err := http.NewRequestWithContext(s.Ctx, http.MethodPost, s.HooksURL+path, io.MultiReader(strings.NewReader(body)))
		s.Must(err)
		req.Header = env.GitHubHeader("t", "push", body)
		resp, err := s.HTTP.Do(req)
		s.Must(err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		s.Must(err)
		return env.Response{Status: resp.StatusCode, Body: string(answer)}
	}
	s.mustTell("3 MiB in chunks", chunked(fits), http.StatusOK)
	s.mustTell("3 MiB and a byte in chunks", chunked(over), http.StatusRequestEntityTooLarge, "3 MiB")
	s.Push(path, "t", http.StatusOK)
}

// Fails when a body is checked before its encoding is, or when the handler inflates it.
func TestACompressedBodyIsRefusedAtBothDoors(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	for _, encoding := range []string{"gzip", "br", "identity, gzip"} {
		header := env.GitHubHeader("t", "push", env.GitHubPush)
		header.Set("Content-Encoding", encoding)
		s.mustTell("a webhook in "+encoding, s.hook(http.MethodPost, path, header, env.GitHubPush), http.StatusUnsupportedMediaType, "encoding")
		resp, err := s.Do(s.Ctx, http.MethodPost, s.EventsURL+"/", http.Header{"Content-Encoding": {encoding}}, []byte("{}"))
		s.Must(err)
		s.mustTell("an event in "+encoding, resp, http.StatusUnsupportedMediaType)
	}
	s.neverRequested(s.Tenant, "GitRepository", "app")
	header := env.GitHubHeader("t", "push", env.GitHubPush)
	header.Set("Content-Encoding", "identity")
	s.mustTell("identity", s.hook(http.MethodPost, path, header, env.GitHubPush), http.StatusOK)
}

// Fails when the method is checked before the path: the answer would reveal the existing paths.
func TestOnlyAKnownPathTellsThatTheMethodIsWrong(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	unknown := env.HookPath("t", "nobody", s.Tenant.Namespace)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
		header := env.GitHubHeader("t", "push", env.GitHubPush)
		known := s.hook(method, path, header, env.GitHubPush)
		s.mustTell(method+" of a known path", known, http.StatusMethodNotAllowed)
		if known.Header.Get("Allow") != http.MethodPost {
			t.Errorf("%s of a known path: Allow is %q", method, known.Header.Get("Allow"))
		}
		s.mustTell(method+" of an unknown path", s.hook(method, unknown, header, env.GitHubPush), http.StatusNotFound)
	}
	for _, other := range []string{"/", "/hook", "/hook/", path + "/", path + "?a=b", strings.ToUpper(path), "/metrics", "/healthz"} {
		s.mustTell("POST "+other, s.hook(http.MethodPost, other, env.GitHubHeader("t", "push", env.GitHubPush), env.GitHubPush), http.StatusNotFound)
	}
	s.neverRequested(s.Tenant, "GitRepository", "app")
}

// Fails when a GET or a PUT is refused for type generic, which Flux documents to accept any request, or triggers
// nothing.
func TestAGenericHookTakesGETAndPUT(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	path, err := s.Tenant.Receiver(s.Ctx, "app", "t", `{"type":"generic","secretRef":{"name":"app-token"},
		"resources":[{"kind":"GitRepository","name":"app"}]}`)
	s.Must(err)
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		sent := time.Now()
		s.mustTell(method, s.hook(method, path, nil, ""), http.StatusOK)
		s.Requested(s.Tenant, "GitRepository", "app", sent)
	}
}

// Fails when a type reads another header than its sender writes.
func TestEachReceiverTypeTakesWhatItsSenderSends(t *testing.T) {
	s := setUp(t)
	const body = `{"ref":"refs/heads/main"}`
	for kind, header := range map[string]http.Header{
		"generic":      {},
		"generic-hmac": {"X-Signature": {"sha256=" + env.Sign("t", body)}},
		"github":       env.GitHubHeader("t", "push", body),
		"gitlab":       {"X-Gitlab-Token": {"t"}, "X-Gitlab-Event": {"Push Hook"}},
	} {
		s.Must(s.Tenant.Object(s.Ctx, "GitRepository", kind, nil, ""))
		path, err := s.Tenant.Receiver(s.Ctx, kind, "t", `{"type":"`+kind+`","secretRef":{"name":"`+kind+`-token"},
			"resources":[{"kind":"GitRepository","name":"`+kind+`"}]}`)
		s.Must(err)
		if want := env.HookPath("t", kind, s.Tenant.Namespace); path != want {
			t.Errorf("%s: the path is %s, want Flux's %s", kind, path, want)
		}
		if kind != "generic" { // its path alone authenticates
			s.mustTell(kind+" without proof", s.hook(http.MethodPost, path, nil, body), http.StatusBadRequest)
		}
		sent := time.Now()
		s.mustTell(kind, s.hook(http.MethodPost, path, header, body), http.StatusOK)
		s.Requested(s.Tenant, "GitRepository", kind, sent)
	}
}

// Fails when the event is not compared with the list, or the comparison depends on case. Fails also when a ping is
// refused because it is not listed, or triggers.
func TestAReceiverTakesTheEventsItLists(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", `,"events":["push","Release"]`)
	send := func(event string) env.Response {
		return s.hook(http.MethodPost, path, env.GitHubHeader("t", event, env.GitHubPush), env.GitHubPush)
	}
	s.mustTell("an event that is not listed", send("issues"), http.StatusBadRequest, "event")
	s.mustTell("no event", send(""), http.StatusBadRequest, "event")
	s.mustTell("a ping", send("ping"), http.StatusOK, "ping")
	s.neverRequested(s.Tenant, "GitRepository", "app")
	for _, event := range []string{"push", "PUSH", "release"} {
		sent := time.Now()
		s.mustTell(event, send(event), http.StatusOK)
		s.Requested(s.Tenant, "GitRepository", "app", sent)
	}
}

// A connection that is slow with its headers, or with its body, is closed in bounded time, and hundreds of them, from
// the same address, disturb no other sender. Fails without a time-out for headers or for reading.
func TestSlowConnectionsEndAndDisturbNobody(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	const bound = 45 * time.Second
	var heads, bodies slowly
	for range 100 {
		s.Must(heads.open(s.Ctx, s.HooksURL, "POST "+path+" HTTP/1.1\r\nHost: x\r\nX-Slow: "))
		s.Must(bodies.open(s.Ctx, s.HooksURL, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"X-Hub-Signature-256: sha256=%s\r\nContent-Length: 1000000\r\n\r\n{", path, env.Sign("t", "x"))))
		s.Must(heads.open(s.Ctx, s.EventsURL, "POST / HTTP/1.1\r\nHost: x\r\nX-Slow: "))
	}
	s.Cleanup(func() { heads.close(); bodies.close() })
	other := s.NewTenant()
	theirs := s.Receiver(other, "app", "t", "")
	for range 50 {
		begin := time.Now()
		s.Push(theirs, "t", http.StatusOK)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("a webhook beside slow connections took %s", took)
		}
	}
	for what, conns := range map[string]*slowly{"headers": &heads, "bodies": &bodies} {
		ended, err := conns.drip(s.Within(bound), 200*time.Millisecond)
		if err != nil {
			t.Errorf("slow %s: %v", what, err)
			continue
		}
		t.Logf("the last connection with slow %s was closed after %s", what, ended.Round(time.Millisecond))
	}
	s.Push(path, "t", http.StatusOK)
	s.Must(env.Eventually(s.Ctx, s.idle))
}

// Fails when a body is logged, kept or echoed: only its digest is used.
func TestARefusedBodyIsNotEchoed(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	body := `{"mark":"` + strings.Repeat("body-mark-", 3) + `"}`
	resp := s.hook(http.MethodPost, path, env.GitHubHeader("wrong", "push", body), body)
	s.mustTell("refused", resp, http.StatusBadRequest)
	if strings.Contains(resp.Body, "body-mark") || bytes.Contains([]byte(s.Logs()), []byte("body-mark-body-mark")) {
		t.Error("a refused body was written somewhere")
	}
}

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// added are the rights on the API in the roles for people.
var added = map[string][]rbacv1.PolicyRule{
	"notifier-view": {{
		APIGroups: []string{env.Kinds["Alert"].Group}, Resources: []string{"deliveries", "events", "webhooks"}, Verbs: []string{"get", "list", "watch"},
	}},
	"notifier-edit": {{
		APIGroups: []string{env.Kinds["Alert"].Group}, Resources: []string{"deliveries/replay", "providers/test"}, Verbs: []string{"create"},
	}},
}

// token makes a service account of the tenant and returns a token of it, for the audiences if any are given.
func (s *fixture) token(t *env.Tenant, account string, audiences ...string) string {
	s.Helper()
	s.Must(t.ServiceAccount(s.Ctx, t.Namespace, account))
	seconds := int64(600)
	r, err := t.Client.CoreV1().ServiceAccounts(t.Namespace).CreateToken(s.Ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, Audiences: audiences},
	}, metav1.CreateOptions{})
	s.Must(err)
	return r.Status.Token
}

// bind binds a service account of the tenant to a role for people, and waits until the API server applies that.
func (s *fixture) bind(t *env.Tenant, account, role string) {
	s.Helper()
	_, err := t.Client.RbacV1().RoleBindings(t.Namespace).Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: t.Namespace, Name: account}},
	}, metav1.CreateOptions{})
	s.Must(err)
	s.Must(t.AwaitAllowed(s.Ctx, true, env.ServiceAccountUser(t.Namespace, account), t.Namespace, added[role]...))
}

// unbind removes the binding of bind.
func (s *fixture) unbind(t *env.Tenant, account, role string) {
	s.Helper()
	s.Must(t.Client.RbacV1().RoleBindings(t.Namespace).Delete(s.Ctx, account+"-"+role, metav1.DeleteOptions{}))
}

// api sends a request to the API with a token, or without one if it is empty. On a machine under load a few reads take a user's time for
// reading, so it waits as long as an answer of 429 says.
func (s *fixture) api(token, method, path, body string) env.Response {
	s.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		header.Set("Content-Type", "application/json")
	}
	for {
		resp, err := s.Do(s.Ctx, method, s.APIURL+path, header, []byte(body))
		s.Must(err)
		if resp.Status != http.StatusTooManyRequests {
			return resp
		}
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		s.Must(err)
		select {
		case <-s.Ctx.Done():
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
}

// read GETs a path, and decodes the answer into value.
func (s *fixture) read(token, path string, value any) {
	s.Helper()
	resp := s.api(token, http.MethodGet, path, "")
	if resp.Status != http.StatusOK {
		s.Fatalf("%s: %d %s", path, resp.Status, resp.Body)
	}
	s.Must(json.Unmarshal([]byte(resp.Body), value))
}

// delivered is a delivery in the API's answers.
type delivered struct {
	ID, State, Provider string
	Object              struct{ Kind, Name string }
	Order               uint64
	Tries               []struct{ Class string }
}

type page[T any] struct {
	Items []T
	Next  string
}

// deliver posts one event of the tenant, waits until a sink has it, and returns its delivery.
func (s *fixture) deliver(token string, sink *env.Sink) delivered {
	s.Helper()
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "no such file", "main@sha1:1")
	_, err := sink.Wait(s.Ctx, func(got []env.Received) bool { return len(got) == 1 })
	s.Must(err)
	var found page[delivered]
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		s.read(token, "/v1/namespaces/"+s.Tenant.Namespace+"/deliveries?state=sent&provider=all", &found)
		if len(found.Items) != 1 {
			return fmt.Errorf("%d deliveries", len(found.Items))
		}
		return nil
	}))
	return found.Items[0]
}

// W1. A viewer of a namespace sees its deliveries, events and webhooks, each with all its kept data, and may not replay.
// Fails when a part of an answer is of another tenant's, or is missing.
func TestW1AViewerSeesTheirOwn(t *testing.T) {
	s := setUp(t)
	token, ns := s.token(s.Tenant, "viewer"), "/v1/namespaces/"+s.Tenant.Namespace
	s.bind(s.Tenant, "viewer", "notifier-view")
	d := s.deliver(token, s.AlertedSink())
	if d.Object.Kind != "Kustomization" || d.Object.Name != "app" || d.State != "sent" {
		t.Errorf("listed as %+v", d)
	}
	var detail struct {
		delivered
		Message struct{ Message, Reason string }
	}
	s.read(token, ns+"/deliveries/"+d.ID, &detail)
	if detail.Message.Message != "no such file" || detail.Message.Reason != "BuildFailed" {
		t.Errorf("shown as %+v", detail)
	}
	var events page[struct{ ID, Message string }]
	s.read(token, ns+"/events?object=kustomization/app&since=1h", &events)
	if len(events.Items) != 1 || events.Items[0].Message != "no such file" {
		t.Fatalf("events %+v", events)
	}
	var told struct {
		Decisions []struct {
			Alert, DeliveryID string
			Matched           bool
			Delivery          delivered
		}
	}
	s.read(token, ns+"/events/"+events.Items[0].ID+"/explain", &told)
	if len(told.Decisions) != 1 || !told.Decisions[0].Matched || told.Decisions[0].Delivery.ID != d.ID || told.Decisions[0].Delivery.State != "sent" {
		t.Errorf("explained as %+v", told)
	}
	var health page[struct {
		Kind, Name string
		Ready      bool
	}]
	s.read(token, ns+"/health", &health)
	if len(health.Items) != 2 || !health.Items[0].Ready || !health.Items[1].Ready {
		t.Errorf("health %+v", health)
	}
	path := s.Receiver(s.Tenant, "hook", "t", "")
	s.Push(path, "t", http.StatusOK)
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		resp := s.api(token, http.MethodGet, ns+"/webhooks?receiver=hook", "")
		if resp.Status != http.StatusOK || !strings.Contains(resp.Body, `"result":"accepted"`) || strings.Contains(resp.Body, path) {
			return fmt.Errorf("webhooks: %d %s", resp.Status, resp.Body)
		}
		return nil
	}))
	var mine struct{ Items []string }
	s.read(token, "/v1/namespaces", &mine)
	if diff := cmp.Diff([]string{s.Tenant.Namespace}, mine.Items); diff != "" {
		t.Error(diff)
	}
	if resp := s.api(token, http.MethodPost, ns+"/deliveries/"+d.ID+"/replay", ""); resp.Status != http.StatusForbidden {
		t.Errorf("a viewer's replay: %d", resp.Status)
	}
}

// W1. An editor of a namespace has a delivery sent again, with the same ID, and a test message sent. Fails when a replay
// is not sent, is another delivery, or when no replica learns of it.
func TestW1AnEditorReplaysAndTestsTheirOwn(t *testing.T) {
	s := setUp(t)
	token, ns, sink := s.token(s.Tenant, "editor"), "/v1/namespaces/"+s.Tenant.Namespace, s.AlertedSink()
	s.bind(s.Tenant, "editor", "notifier-view")
	s.bind(s.Tenant, "editor", "notifier-edit")
	d := s.deliver(token, sink)
	if resp := s.api(token, http.MethodPost, ns+"/deliveries/"+d.ID+"/replay", ""); resp.Body != `{"replayed":1}` {
		t.Fatalf("replay: %d %s", resp.Status, resp.Body)
	}
	got, err := sink.Wait(s.Ctx, func(got []env.Received) bool { return len(got) == 2 })
	s.Must(err)
	if first, again := got[0].Header.Get("Idempotency-Key"), got[1].Header.Get("Idempotency-Key"); first != again {
		t.Errorf("sent as %q and as %q", first, again)
	}
	resp := s.api(token, http.MethodPost, ns+"/providers/all/test", "")
	var made struct{ DeliveryID string }
	s.Must(json.Unmarshal([]byte(resp.Body), &made))
	_, err = sink.Wait(s.Ctx, func(got []env.Received) bool { return len(got) == 3 })
	s.Must(err)
	s.Must(env.Eventually(s.Ctx, func(context.Context) error {
		var test delivered
		if resp := s.api(token, http.MethodGet, ns+"/deliveries/"+made.DeliveryID, ""); resp.Status == http.StatusOK {
			s.Must(json.Unmarshal([]byte(resp.Body), &test))
		}
		if test.State != "sent" {
			return fmt.Errorf("the test %q is %q", made.DeliveryID, test.State)
		}
		return nil
	}))
	if resp := s.api(token, http.MethodPost, ns+"/providers/none/test", ""); resp.Status != http.StatusNotFound {
		t.Errorf("a test of a Provider that does not exist: %d %s", resp.Status, resp.Body)
	}
}

// W2. Every verb on a namespace in which a user has no right is refused with the same bytes, whether it exists or not.
// Fails when the answer depends on the content of the namespace, or names it.
func TestW2AnothersNamespaceLooksAsIfItDidNotExist(t *testing.T) {
	s := setUp(t)
	other, token := s.NewTenant(), s.token(s.Tenant, "editor")
	s.bind(s.Tenant, "editor", "notifier-view")
	viewer := s.token(s.Tenant, "nobody") // without a right anywhere
	d := s.deliver(token, s.AlertedSink())
	for _, request := range []struct{ method, path, body string }{
		{"GET", "/deliveries", ""},
		{"GET", "/deliveries?watch=1", ""},
		{"GET", "/deliveries/" + d.ID, ""},
		{"POST", "/deliveries/" + d.ID + "/replay", ""},
		{"POST", "/deliveries/replay", `{"state":"dead"}`},
		{"GET", "/events", ""},
		{"GET", "/events?watch=1", ""},
		{"GET", "/events/" + d.ID + "/explain", ""},
		{"GET", "/webhooks", ""},
		{"GET", "/webhooks?watch=1", ""},
		{"GET", "/health", ""},
		{"POST", "/providers/all/test", ""},
	} {
		for _, who := range []struct{ token, foreign string }{{token, other.Namespace}, {viewer, s.Tenant.Namespace}} {
			there := s.api(who.token, request.method, "/v1/namespaces/"+who.foreign+request.path, request.body)
			absent := s.api(who.token, request.method, "/v1/namespaces/tenant-that-is-none"+request.path, request.body)
			there.Header.Del("Date")
			absent.Header.Del("Date")
			if there.Status != http.StatusForbidden {
				t.Errorf("%s %s: %d %s", request.method, request.path, there.Status, there.Body)
			}
			if diff := cmp.Diff(absent, there); diff != "" {
				t.Errorf("%s %s (-no such namespace +another's):\n%s", request.method, request.path, diff)
			}
		}
	}
}

// watch follows the deliveries of the tenant's namespace. The returned channel gets each line of data, and is closed at
// the end.
func (s *fixture) watch(token string) <-chan string {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Ctx)
	s.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.APIURL+"/v1/namespaces/"+s.Tenant.Namespace+"/deliveries?watch=1", http.NoBody)
	s.Must(err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
	s.Must(err)
	if resp.StatusCode != http.StatusOK {
		s.Fatalf("watch: %d", resp.StatusCode)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for text := bufio.NewScanner(resp.Body); text.Scan(); {
			if data, ok := strings.CutPrefix(text.Text(), "data: "); ok {
				lines <- data
			}
		}
	}()
	return lines
}

// W5. Fails when the user of a deleted RoleBinding can read, or watch, for more than ten seconds.
func TestW5ARevokedRoleBindingEndsAccessWithinTenSeconds(t *testing.T) {
	s := setUp(t)
	token, path := s.token(s.Tenant, "viewer"), "/v1/namespaces/"+s.Tenant.Namespace+"/deliveries"
	s.bind(s.Tenant, "viewer", "notifier-view")
	items := s.watch(token)
	d := s.deliver(token, s.AlertedSink())
	if first := <-items; !strings.Contains(first, d.ID) {
		t.Errorf("watched %s, want the delivery %s", first, d.ID)
	}
	s.unbind(s.Tenant, "viewer", "notifier-view")
	revoked := time.Now()
	s.Must(env.Eventually(s.Within(10*time.Second), func(context.Context) error {
		if resp := s.api(token, http.MethodGet, path, ""); resp.Status != http.StatusForbidden {
			return fmt.Errorf("a read is answered %d", resp.Status)
		}
		return nil
	}))
	if last := <-items; !strings.Contains(last, "you may not watch") {
		t.Errorf("at the end the watch says %s", last)
	}
	if _, open := <-items; open || time.Since(revoked) > 10*time.Second {
		t.Errorf("the watch is open: %t, after %s", open, time.Since(revoked))
	}
}

// W3. Fails when a token that is malformed, expired, of another audience or of no known user is accepted, or is answered
// differently from another such token.
func TestW3AForeignTokenIsNone(t *testing.T) {
	s := setUp(t)
	token, path := s.token(s.Tenant, "viewer"), "/v1/namespaces/"+s.Tenant.Namespace+"/deliveries"
	s.bind(s.Tenant, "viewer", "notifier-view")
	if resp := s.api(token, http.MethodGet, path, ""); resp.Status != http.StatusOK {
		t.Fatalf("a good token: %d %s", resp.Status, resp.Body)
	}
	parts := strings.Split(token, ".")
	gone := s.token(s.Tenant, "gone")
	s.Must(s.Tenant.Client.CoreV1().ServiceAccounts(s.Tenant.Namespace).Delete(s.Ctx, "gone", metav1.DeleteOptions{}))
	now := time.Now()
	resigned := func(begins, ends time.Time) string {
		changed, err := s.System.Resign(token, map[string]any{"iat": begins.Unix(), "nbf": begins.Unix(), "exp": ends.Unix()})
		s.Must(err)
		return changed
	}
	if resp := s.api(resigned(now.Add(-time.Hour), now.Add(time.Hour)), http.MethodGet, path, ""); resp.Status != http.StatusOK {
		t.Fatalf("a good token of the key that signs the next ones: %d %s", resp.Status, resp.Body)
	}
	refused := s.api("aaaa", http.MethodGet, path, "").Body
	for name, bad := range map[string]string{
		"expired": resigned(now.Add(-2*time.Hour), now.Add(-time.Hour)), "not valid yet": resigned(now.Add(time.Hour), now.Add(2*time.Hour)),
		"none": "", "malformed": "aaaa.bbbb.cccc", "without its signature": parts[0] + "." + parts[1] + ".",
		"with another's claims": parts[0] + "." + strings.Split(gone, ".")[1] + "." + parts[2],
		"of another audience":   s.token(s.Tenant, "viewer", "https://vault.example.com"), "of a deleted account": gone,
	} {
		if resp := s.api(bad, http.MethodGet, path, ""); resp.Status != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: %d %v", name, resp.Status, resp.Header)
		} else if resp.Body != refused {
			t.Errorf("%s is answered %s, and another token %s", name, resp.Body, refused)
		}
	}
	for _, piece := range parts {
		if len(piece) > 20 && strings.Contains(s.Logs(), piece) {
			t.Error("a token is in the log")
		}
	}
}

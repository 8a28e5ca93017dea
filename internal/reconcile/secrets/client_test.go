package secrets

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"notifier/internal/reconcile/kube"
)

// secretServer answers as an API server that has one Secret. A watch gets the texts of told, one by one.
func secretServer(t *testing.T, asked func(*http.Request), told <-chan string) Source {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked(r)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprint(w, secretJSON("hook", "one", "7"))
			return
		}
		w.(http.Flusher).Flush()
		for text := range told {
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func secretJSON(name, token, version string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"namespace":"team-a","resourceVersion":%q},"data":{"token":%q}}`,
		name, version, base64.StdEncoding.EncodeToString([]byte(token)))
}

// Fails when a request reads other Secrets than the named one, or when the watch has no selector.
func TestSecretsAreAskedForByNameAndNeverListed(t *testing.T) {
	var asked []string
	told := make(chan string)
	close(told)
	c := secretServer(t, func(r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, strings.Join([]string{r.Method, r.URL.Path, q.Get("watch"), q.Get("fieldSelector"), q.Get("resourceVersion")}, " "))
	}, told)
	key := kube.Key{Namespace: "team-a", Name: "hook"}
	object, err := c.Get(t.Context(), key, "0")
	if err != nil || string(object.Data["token"]) != "one" {
		t.Errorf("got %v, %v", object, err)
	}
	w, err := c.Watch(t.Context(), key, "7", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if _, err := w.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("a watch that the server ended: %v", err)
	}
	want := []string{
		"GET /api/v1/namespaces/team-a/secrets/hook   0",
		"GET /api/v1/namespaces/team-a/secrets true metadata.name=hook 7",
	}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked for %q", asked)
	}
}

// Fails when bytes that were read with the event before are lost, when an event must arrive in one piece, or when an unreadable answer is
// quoted.
func TestAWatchOfASecretTellsEveryEventHoweverItIsCut(t *testing.T) {
	event := func(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) + "\n" }
	added, modified := event("ADDED", secretJSON("hook", "one", "7")), event("MODIFIED", secretJSON("hook", "two", "8"))
	told := make(chan string, 100)
	for _, text := range []string{
		added + modified + event("BOOKMARK", secretJSON("", "", "9"))[:40], event("BOOKMARK", secretJSON("", "", "9"))[40:],
		event("DELETED", secretJSON("hook", "two", "10")),
		event("ERROR", `{"kind":"Status","status":"Failure","reason":"Expired","code":410}`),
		event("ADDED", `{"data":{"token":7}}`),
	} {
		told <- text
	}
	close(told)
	c := secretServer(t, func(*http.Request) {}, told)
	w, err := c.Watch(t.Context(), kube.Key{Namespace: "team-a", Name: "hook"}, "0", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var got []string
	for range 4 {
		e, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		state := contentOfEvent(e)
		got = append(got, state)
	}
	if want := "ADDED 7 one, MODIFIED 8 two, BOOKMARK 9 , DELETED 10 two"; strings.Join(got, ", ") != want {
		t.Errorf("got %q", got)
	}
	refused, err := w.Next()
	if err != nil || refused.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(refused.Object)) {
		t.Errorf("a watch that is too old: %v, %v", refused, err)
	}
	if _, err := w.Next(); err == nil || strings.Contains(err.Error(), "token") {
		t.Errorf("a Secret that is none: %v", err)
	}
}

// Fails when a Next still waits after Stop.
func TestStoppingAWatchOfASecretEndsIt(t *testing.T) {
	told := make(chan string)
	c := secretServer(t, func(*http.Request) {}, told)
	w, err := c.Watch(t.Context(), kube.Key{Namespace: "team-a", Name: "hook"}, "0", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer close(told)
	ended := make(chan error)
	go func() {
		_, err := w.Next()
		ended <- err
	}()
	w.Stop()
	if err := <-ended; err == nil {
		t.Error("Next returned an event")
	}
}

// Fails when the log says "unknown" of a Secret that cannot be read, and not what the API server said.
func TestARefusedSecretIsReportedInTheServersWords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,`+
			`"message":"secrets \"hook\" is forbidden: User \"notifier\" cannot get resource \"secrets\""}`)
	}))
	defer server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Get(t.Context(), kube.Key{Namespace: "team-a", Name: "hook"}, "0")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "notifier" cannot get resource "secrets"`) {
		t.Errorf("got %v", err)
	}
}

// Fails when client-go delays a watch that the API server cannot begin yet, by up to half a minute, instead of returning it to wait with
// all others.
func TestAWatchOfASecretThatIsRefusedForNowEndsAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Watch(ctx, kube.Key{Namespace: "team-a", Name: "hook"}, "0", time.Minute); ctx.Err() != nil || !kube.IsAway(err) {
		t.Errorf("after %v: %v", ctx.Err(), err)
	}
}

// answers is an http.RoundTripper.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Fails when each watch keeps headers of its own, when a renewed token is not sent, or when the header of a refusal or of a read is lost.
func TestWatchesOfSecretsShareTheirHeaders(t *testing.T) {
	var sent []http.Header
	status := http.StatusOK
	s := &sharedHeaders{next: answers(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header)
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"1"}}}, nil
	})}
	send := func(query, token string) (kept int) {
		r := httptest.NewRequest(http.MethodGet, "/secrets?"+query, nil)
		r.Header.Set("Authorization", token)
		answer, err := s.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return len(answer.Header)
	}
	if kept := send("watch=true", "one") + send("watch=true", "one") + send("watch=true", "two"); kept != 0 {
		t.Errorf("the answers to watches kept %d headers", kept)
	}
	sent[0].Set("Shared", "yes")
	if sent[1].Get("Shared") != "yes" || sent[2].Get("Shared") != "" || sent[2].Get("Authorization") != "two" {
		t.Errorf("sent %v", sent)
	}
	if send("resourceVersion=0", "two") != 1 {
		t.Error("a read has no header")
	}
	if status = http.StatusTooManyRequests; send("watch=true", "two") != 1 {
		t.Error("a refusal has no header")
	}
}

// A tenant can write a time into the managed fields of its Secret that the API server sends in a form that Go does not read. Fails when a start
// waits for that Secret as for an API server that is away.
func TestT6ASecretThatDoesNotDecodeIsIsolated(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"hook","namespace":"team-a","resourceVersion":"7",`+
			`"managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1","time":"10000-01-01T00:59:59Z"}]},"data":{"token":"dA=="}}`)
	}))
	t.Cleanup(server.Close)
	c, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{
		Source: c, QPS: 100, Changed: func(User) {}, Started: over(), Quiet: over(), Log: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(),
	})
	if _, err := s.Hold(t.Context(), appUser, token); !kube.IsIsolated(err) {
		t.Errorf("got %v, isolated %t", err, kube.IsIsolated(err))
	}
}

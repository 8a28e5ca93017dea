package sentry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// Fails when an event that is no recovery resolves an issue, or when an issue cannot be found without a state of the process.
func TestARecoveryResolvesTheFailuresIssue(t *testing.T) {
	v := newVendor()
	sink := providertest.NewSink(t, v.ServeHTTP)
	cfg := provider.Config{Address: dsnAt(sink.URL), Token: token, UID: uid}
	providertest.Incidents(t, func() provider.Sender { return senderOf(t, cfg) }, v.events)
	if len(v.trail) != 4 {
		t.Errorf("%d transactions of a wait and a success, sent twice, and of three successes that only resolve", len(v.trail))
	}
}

// notifications returns a failure of an object and its recovery.
func notifications(t *testing.T) (failure, recovery provider.Notification) {
	t.Helper()
	failure = providertest.Notifications(t)["error"]
	recovery = failure
	recovery.Event.Severity, recovery.Event.Reason, recovery.DeliveryID = event.SeverityInfo, "ReconciliationSucceeded", "second"
	return failure, recovery
}

// Fails when the issues of another object or of another Provider are resolved as well, or only one of an object's issues is.
func TestARecoveryResolvesTheIssuesOfItsObject(t *testing.T) {
	v := newVendor()
	sink := providertest.NewSink(t, v.ServeHTTP)
	s := senderOf(t, provider.Config{Address: dsnAt(sink.URL), Token: token, UID: uid})
	other := senderOf(t, provider.Config{Address: dsnAt(sink.URL), Token: token, UID: "other"})
	failure, recovery := notifications(t)
	for i, c := range []struct {
		s            *Sender
		name, reason string
	}{{s, "a", "R1"}, {s, "a", "R2"}, {s, "b", "R1"}, {other, "a", "R3"}} {
		n := failure
		n.Event.InvolvedObject.Name, n.Event.InvolvedObject.UID = c.name, c.name
		n.Event.Reason, n.DeliveryID = c.reason, strings.Repeat("0", i+1)
		if err := c.s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	recovery.Event.InvolvedObject.Name, recovery.Event.InvolvedObject.UID = "a", "made again"
	if err := s.Send(t.Context(), recovery); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for issue := range v.open {
		left[issue] = true
	}
	if diff := cmp.Diff(map[string]bool{"b R1": true, "a R3": true}, left); diff != "" {
		t.Errorf("unresolved issues (-want +got):\n%s", diff)
	}
}

// Fails when a recovery before Sentry's search finds the failure resolves nothing, or is delayed forever.
func TestARecoveryWaitsForASearchThatLags(t *testing.T) {
	v := newVendor()
	v.slow = true
	s := senderOf(t, provider.Config{Address: dsnAt(providertest.NewSink(t, v.ServeHTTP).URL), Token: token, UID: uid})
	failure, recovery := notifications(t)
	if err := s.Send(t.Context(), failure); err != nil {
		t.Fatal(err)
	}
	err := event.AsError(s.Send(t.Context(), recovery))
	if err == nil || err.Class != event.Retry || err.RetryAfter != searchAgain || len(v.trail) != 0 {
		t.Fatalf("got %v, and %d transactions", err, len(v.trail))
	}
	began := s.now()
	s.now = func() time.Time { return began.Add(searchable) }
	if err := s.Send(t.Context(), recovery); err != nil {
		t.Errorf("after %v: %v", searchable, err)
	}
	v.slow = false
	if err := s.Send(t.Context(), recovery); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"opened", "closed"}, v.events()); diff != "" {
		t.Error(diff)
	}
}

// A Provider is changed, or the process restarted, within the minute after a failure. Fails when the recovery that finds no issue counts as the
// one that closes it, so that the next ones, which come at every interval, are not sent and the issue stays open. Fails when they are sent for
// ever.
func TestAnIssueOfAnEarlierSenderIsResolvedByALaterRecovery(t *testing.T) {
	v := newVendor()
	v.slow = true
	sink := providertest.NewSink(t, v.ServeHTTP)
	cfg := provider.Config{Address: dsnAt(sink.URL), Token: token, UID: uid}
	failure, closing := notifications(t)
	closing.Event.Metadata = map[string]string{provider.CommitStatusKey: "update"}
	if err := senderOf(t, cfg).Send(t.Context(), failure); err != nil {
		t.Fatal(err)
	}
	s := senderOf(t, cfg)
	began := s.now()
	s.issues.began = began
	for _, step := range []struct {
		after    time.Duration
		needless bool
	}{{searchable / 2, false}, {2 * searchable, false}, {3 * searchable, true}} {
		s.now = func() time.Time { return began.Add(step.after) }
		if s.Needless(closing) != step.needless {
			t.Errorf("after %v the recovery is needless: %v", step.after, !step.needless)
		}
		if err := s.Send(t.Context(), closing); err != nil {
			t.Error(err)
		}
		v.slow = false
	}
	if diff := cmp.Diff([]string{"opened", "closed"}, v.events()); diff != "" {
		t.Error(diff)
	}
}

// Fails when a recovery is delayed after its issue was resolved.
func TestASecondRecoveryDoesNotWait(t *testing.T) {
	s := senderOf(t, provider.Config{Address: dsnAt(providertest.NewSink(t, newVendor().ServeHTTP).URL), Token: token, UID: uid})
	failure, recovery := notifications(t)
	for _, n := range []provider.Notification{failure, recovery, recovery} {
		if err := s.Send(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
}

// Fails when a known organization is looked up for each recovery, or is kept after its name changed.
func TestTheOrganizationIsLookedUpOnce(t *testing.T) {
	sink := providertest.NewSink(t, newVendor().ServeHTTP)
	s := senderOf(t, provider.Config{Address: dsnAt(sink.URL), Token: token, UID: uid})
	_, recovery := notifications(t)
	send := func(want ...string) {
		t.Helper()
		before := len(sink.Requests())
		_ = s.Send(t.Context(), recovery)
		var got []string
		for _, r := range sink.Requests()[before:] {
			got = append(got, r.Method)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	send("GET", "PUT", "POST")
	send("PUT", "POST")
	s.issues.organizationIs("renamed")
	send("PUT")
	send("GET", "PUT", "POST")
}

// Fails when a refusal shows more than Sentry's known texts, when a project outside the token's access is requested again and again,
// or when an organization's name leads to another path.
func TestRefusalsOfTheAPI(t *testing.T) {
	_, recovery := notifications(t)
	for _, c := range []struct {
		status int
		answer string
		class  event.Class
		want   string
	}{
		{
			403, `{"detail":"You do not have permission to perform this action."}`, event.Permanent,
			"HTTP 403: You do not have permission to perform this action.",
		},
		{401, `{"detail":"Invalid token"}`, event.Permanent, "HTTP 401: Invalid token"},
		{404, `{"detail":"s3cret"}`, event.Permanent, "HTTP 404"},
		{429, `{"detail":"s3cret"}`, event.Retry, "HTTP 429"},
		{502, `s3cret`, event.Retry, "HTTP 502"},
		{200, `s3cret`, event.Retry, "answer is not one of Sentry's API"},
		{200, `[]`, event.Permanent, "the token does not open the DSN's project"},
		{200, `[{"id":"7","organization":{"slug":"acme"}},null,{"id":"42"}]`, event.Permanent, "the token does not open the DSN's project"},
		{
			200, `[{"id":"42","organization":{"slug":"` + strings.Repeat("a", 101) + `"}}]`, event.Permanent,
			"the token does not open the DSN's project",
		},
		{200, `[{"id":"42","organization":{"slug":"../../x?y"}}]`, event.Permanent, "the token does not open the DSN's project"},
		{200, `[` + strings.Repeat(" ", maxReply) + `]`, event.Retry, "answer is too long"},
	} {
		sink := providertest.NewSink(t, providertest.Says(c.status, c.answer))
		s := senderOf(t, provider.Config{Address: dsnAt(sink.URL), Token: token})
		err := event.AsError(s.Send(t.Context(), recovery))
		if err == nil || err.Class != c.class || err.Reason != c.want || len(sink.Requests()) != 1 {
			t.Errorf("%d %.80s: got %v, of %d requests", c.status, c.answer, err, len(sink.Requests()))
		}
	}
}

// Fails when the DSN's key is sent to the API, or the token to the host of events, also at Sentry's own service.
func TestEachCredentialGoesToItsHost(t *testing.T) {
	v := newVendor()
	ca := providertest.NewCA(t)
	sink := ca.NewTLSSink(t, v.ServeHTTP, false, "o1.ingest.de.sentry.io", "de.sentry.io")
	proxy := providertest.HTTPProxy(t, sink.Listener.Addr(), "user", "proxy-s3cret")
	cfg := provider.Config{
		Address: "https://" + key + "@o1.ingest.de.sentry.io/42", Token: token, UID: uid,
		Proxy: provider.Proxy{Address: proxy.URL, Username: "user", Password: "proxy-s3cret"}, TLS: provider.TLS{CA: ca.PEM()},
	}
	s := senderOf(t, cfg)
	failure, recovery := notifications(t)
	for _, n := range []provider.Notification{failure, recovery} {
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	type seen struct {
		Method, Host, Path string
		Key, Token         bool
	}
	var got []seen
	for _, r := range sink.Requests() {
		got = append(got, seen{r.Method, r.Host, r.Path, r.Header.Get("X-Sentry-Auth") != "", r.Header.Get("Authorization") != ""})
	}
	want := []seen{
		{"POST", "o1.ingest.de.sentry.io", "/api/42/envelope/", true, false},
		{"PUT", "de.sentry.io", "/api/0/organizations/1/issues/", false, true},
		{"POST", "o1.ingest.de.sentry.io", "/api/42/envelope/", true, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"opened", "closed"}, v.events()); diff != "" {
		t.Error(diff)
	}
}

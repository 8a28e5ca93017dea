package cloudauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	tenant = "2f0c1f0e-58b5-4c43-8f4c-0f6b2c7c1e11"
	client = "7d9b86f6-4f5e-4a52-9d0e-8f1a0c6b2d22"
	scope  = "https://eventhubs.azure.net//.default"
)

// config returns the Config of a Provider whose account has the annotations. Its tokens name their audience.
func config(annotations map[string]string) provider.Config {
	return provider.Config{
		Type: "azureeventhub", ServiceAccount: "events", Network: providertest.Loopback(), Timeout: 10 * time.Second,
		Identity:    func(_ context.Context, audience string) (string, error) { return "k8s-s3cret-for:" + audience, nil },
		Annotations: func(context.Context) (map[string]string, error) { return annotations, nil },
	}
}

func azureAnnotations() map[string]string {
	return map[string]string{azureClientID: client, azureTenantID: tenant}
}

// entra answers like Entra ID's token endpoint and refuses the same requests. Each token has a number.
func entra(life string) http.HandlerFunc {
	var issued atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		body, want := r.FormValue, map[string]string{
			"grant_type": "client_credentials", "client_id": client, "scope": scope,
			"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
			"client_assertion":      "k8s-s3cret-for:api://AzureADTokenExchange",
		}
		switch {
		case r.Method != http.MethodPost || r.URL.Path != "/"+tenant+"/oauth2/v2.0/token":
			refuseLogin(w, 90002)
			return
		case r.ParseForm() != nil || len(r.PostForm) != len(want) || r.Header.Get("Authorization") != "":
			refuseLogin(w, 900144)
			return
		}
		for name, value := range want {
			if body(name) != value {
				refuseLogin(w, 700213)
				return
			}
		}
		_, _ = fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":%s,"ext_expires_in":%[1]s,"access_token":"cloud-%d"}`, life, issued.Add(1))
	}
}

func refuseLogin(w http.ResponseWriter, code int) {
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = fmt.Fprintf(w, `{"error":"invalid_client","error_description":"AADSTS%d: k8s-s3cret","error_codes":[%[1]d]}`, code)
}

func newAzure(t *testing.T, cfg provider.Config, h http.HandlerFunc) (*Source, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	t.Setenv("AZURE_AUTHORITY_HOST", sink.URL+"/")
	s, err := Azure(cfg, scope)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s, sink
}

// Fails when a field of the exchange is wrong, or a token is requested for every message.
func TestAzureExchangesTheAccountsTokenAndKeepsTheAnswer(t *testing.T) {
	s, sink := newAzure(t, config(azureAnnotations()), entra("3599"))
	for range 3 {
		got, err := s.Token(t.Context())
		if err != nil || got != "cloud-1" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if n := len(sink.Requests()); n != 1 {
		t.Errorf("%d exchanges for three tokens", n)
	}
}

// Fails when a token is used until its end, or is dropped while it is still valid because its renewal failed.
func TestATokenIsRenewedBeforeItsEndAndKeptWhileThatFails(t *testing.T) {
	var down atomic.Bool
	answer := entra("3599")
	s, _ := newAzure(t, config(azureAnnotations()), func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answer(w, r)
	})
	want := func(token string) {
		t.Helper()
		if got, err := s.Token(t.Context()); err != nil || got != token {
			t.Fatalf("got %q, %v; want %q", got, err, token)
		}
	}
	want("cloud-1")
	if life := s.token.expiresAt.Sub(s.token.renew); life < 10*time.Minute {
		t.Errorf("renewed %v before its end", life)
	}
	s.token.renew = time.Now()
	want("cloud-2")
	down.Store(true)
	s.token.renew = time.Now()
	want("cloud-2")
	s.token.renew, s.token.expiresAt = time.Now(), time.Now()
	_, err := s.Token(t.Context())
	if e := event.AsError(err); e.Class != event.Retry || e.Reason != "login at Microsoft Entra ID: HTTP 502" {
		t.Errorf("got class %d, %q", e.Class, e.Reason)
	}
}

// Fails when each message tries to renew a token that is still valid while that fails: each would wait for those before, whose tries may take
// all their time, and read the service account.
func TestAFailedRenewalIsNotTriedByEachMessage(t *testing.T) {
	var down atomic.Bool
	answer := entra("3599")
	s, sink := newAzure(t, config(azureAnnotations()), func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answer(w, r)
	})
	if _, err := s.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	s.token.renew = time.Now()
	for range 5 {
		if got, err := s.Token(t.Context()); got != "cloud-1" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if n := len(sink.Requests()); n != 2 {
		t.Errorf("%d tries for five messages", n-1)
	}
	if again := time.Until(s.token.renew); again > renewAgain || again < renewAgain/2 {
		t.Errorf("the next one is %v later", again)
	}
}

// Fails when a token is used for as long as the cloud allows: a deleted account would keep its access for a day.
func TestATokenIsUsedForAnHourAtMost(t *testing.T) {
	s, _ := newAzure(t, config(azureAnnotations()), entra("86399"))
	if _, err := s.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(s.token.expiresAt); left > time.Hour {
		t.Errorf("it is used for %v", left)
	}
}

// Fails when a refusal ends the delivery for good, or shows more than the meaning of a known code.
func TestARefusedLoginIsRetriedAndSaysWhy(t *testing.T) {
	for code, reason := range map[int]string{
		700213: "HTTP 401: AADSTS700213: no federated credential has the service account as its subject",
		70021:  "HTTP 401: AADSTS70021: no federated credential matches the service account",
		1:      "HTTP 401: invalid_client",
	} {
		s, _ := newAzure(t, config(azureAnnotations()), func(w http.ResponseWriter, _ *http.Request) { refuseLogin(w, code) })
		_, err := s.Token(t.Context())
		if e := event.AsError(err); e.Class != event.Retry || e.Error() != "login at Microsoft Entra ID: "+reason {
			t.Errorf("%d: class %d, %q", code, e.Class, e.Error())
		}
	}
}

// Fails when an answer without a token is accepted, or a token that would break a header.
func TestAnAnswerWithoutATokenIsAFailedLogin(t *testing.T) {
	for _, body := range []string{
		``, `<html>`, `{}`, `{"access_token":"x"}`, `{"access_token":"","expires_in":60}`, `{"access_token":"a\nb","expires_in":60}`,
		`{"access_token":"x","expires_in":-1}`, `{"access_token":"x","expires_in":"soon"}`, `{"access_token":["x"],"expires_in":60}`,
	} {
		s, _ := newAzure(t, config(azureAnnotations()), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		got, err := s.Token(t.Context())
		if e := event.AsError(err); got != "" || err == nil || e.Class != event.Retry || e.Label != provider.LabelReply {
			t.Errorf("%s: got %q, %v", body, got, err)
		}
	}
}

// Fails when a missing or malformed annotation becomes part of the URL.
func TestTheErrorNamesTheFaultyAnnotation(t *testing.T) {
	for annotation, value := range map[string]string{azureClientID: "", azureTenantID: "../common?x="} {
		annotations := azureAnnotations()
		annotations[annotation] = value
		s, sink := newAzure(t, config(annotations), entra("60"))
		_, err := s.Token(t.Context())
		if e := event.AsError(err); e.Class != event.Retry || !strings.Contains(e.Reason, annotation) || strings.Contains(e.Reason, "common") {
			t.Errorf("%s: %v", annotation, err)
		}
		if n := len(sink.Requests()); n != 0 {
			t.Errorf("%s: %d requests", annotation, n)
		}
	}
}

// Fails when the cluster's error about the account is lost.
func TestTheClustersRefusalIsPassedOn(t *testing.T) {
	for name, change := range map[string]func(*provider.Config, error){
		"annotations": func(c *provider.Config, err error) {
			c.Annotations = func(context.Context) (map[string]string, error) { return nil, err }
		},
		"token": func(c *provider.Config, err error) {
			c.Identity = func(context.Context, string) (string, error) { return "", err }
		},
	} {
		cfg := config(azureAnnotations())
		change(&cfg, event.NewError(event.Retry, provider.LabelRejected, `there is no service account "events"`, nil))
		s, sink := newAzure(t, cfg, entra("60"))
		_, err := s.Token(t.Context())
		if e := event.AsError(err); e.Reason != `login at Microsoft Entra ID: there is no service account "events"` || len(sink.Requests()) != 0 {
			t.Errorf("%s: %v, %d requests", name, err, len(sink.Requests()))
		}
	}
}

// Fails when only the first message reveals an installation without workload identity, or a Provider without an account.
func TestWithoutWorkloadIdentityNothingIsBuilt(t *testing.T) {
	for says, change := range map[string]func(*provider.Config){
		"--feature-gates=ObjectLevelWorkloadIdentity=true": func(c *provider.Config) { c.Identity, c.Annotations = nil, nil },
		"spec.serviceAccountName is not set":               func(c *provider.Config) { c.ServiceAccount = "" },
	} {
		cfg := config(azureAnnotations())
		change(&cfg)
		if s, err := Azure(cfg, scope); err == nil || s != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, %v; want %q", s, err, says)
		}
	}
}

// Fails when the login bypasses the proxy or the checks of the Provider's messages.
func TestTheLoginIsGuardedAndTakesTheProvidersProxy(t *testing.T) {
	cfg := config(azureAnnotations())
	sink := providertest.NewSink(t, entra("60"))
	proxy := providertest.HTTPProxy(t, sink.Listener.Addr(), "user", "password")
	cfg.Proxy = provider.Proxy{Address: proxy.URL, Username: "user", Password: "password"}
	t.Setenv("AZURE_AUTHORITY_HOST", "http://login.far.test")
	s, err := Azure(cfg, scope)
	if err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	if _, err := s.Token(t.Context()); err != nil || sink.Last(t).Host != "login.far.test" {
		t.Errorf("by the proxy: %v", err)
	}
	cfg = config(azureAnnotations())
	cfg.Network = provider.Network{}
	t.Setenv("AZURE_AUTHORITY_HOST", "http://169.254.169.254")
	if _, err := Azure(cfg, scope); !errors.Is(err, provider.ErrDenied) {
		t.Errorf("a denied address: %v", err)
	}
}

// Fails when the wait for another caller's exchange outlasts the send.
func TestAWaitForAnotherExchangeEndsWithItsSend(t *testing.T) {
	s, _ := newAzure(t, config(azureAnnotations()), entra("60"))
	if _, free := s.turn.TryAcquire(1); !free {
		t.Fatal("another exchange runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Token(ctx); event.AsError(err).Label != provider.LabelCanceled {
		t.Errorf("got %v", err)
	}
}

// Fails when the bound of an hour on an answer's seconds overflows.
func TestAnAbsurdLifeIsAnHour(t *testing.T) {
	if got := seconds(1 << 62); got != time.Hour {
		t.Errorf("got %v", got)
	}
	if u, err := url.Parse(azureAuthority); err != nil || u.Scheme != "https" {
		t.Errorf("%v, %v", u, err)
	}
}

package cloudauth

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	poolProvider = "projects/123/locations/global/workloadIdentityPools/pool/providers/cluster"
	gsa          = "events@project.iam.gserviceaccount.com"
	pubsubScope  = "https://www.googleapis.com/auth/pubsub"
	gkeAudience  = "identitynamespace:project-a.svc.id.goog:" +
		"https://container.googleapis.com/v1/projects/project-a/locations/europe-west1/clusters/main"
)

// google answers like Google's two token endpoints for the audience, and refuses the same requests.
func google(audience, subject string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Host + r.URL.Path {
		case "sts.googleapis.com/v1/token":
			stsAnswer(w, r, audience, subject)
		case "iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/" + gsa + ":generateAccessToken":
			if r.Header.Get("Authorization") != "Bearer federated-cloud-platform" || r.Header.Get("Content-Type") != "application/json" {
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprint(w, `{"error":{"code":403,"message":"s3cret","status":"PERMISSION_DENIED"}}`)
				return
			}
			_, _ = fmt.Fprintf(w, `{"accessToken":"impersonated","expireTime":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

func stsAnswer(w http.ResponseWriter, r *http.Request, audience, subject string) {
	scope := r.FormValue("scope")
	switch {
	case r.Method != http.MethodPost, len(r.PostForm) != 6, r.FormValue("audience") != audience, r.FormValue("subject_token") != subject,
		r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange",
		r.FormValue("requested_token_type") != "urn:ietf:params:oauth:token-type:access_token",
		r.FormValue("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt",
		!strings.HasPrefix(scope, "https://www.googleapis.com/auth/"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"invalid_grant","error_description":"k8s-s3cret"}`)
	default:
		_, _ = fmt.Fprintf(w, `{"access_token":"federated-%s","issued_token_type":"urn:ietf:params:oauth:token-type:access_token",`+
			`"token_type":"Bearer","expires_in":3599}`, scope[strings.LastIndex(scope, "/")+1:])
	}
}

// newGoogle returns a Source with a proxy that connects its requests to h.
func newGoogle(t *testing.T, annotations map[string]string, h http.HandlerFunc) (*Source, *providertest.Sink) {
	t.Helper()
	sink := systemCA.NewTLSSink(t, h, false, "sts.googleapis.com", "iamcredentials.googleapis.com")
	cfg := config(annotations)
	cfg.Proxy = provider.Proxy{Address: providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p").URL, Username: "u", Password: "p"}
	s, err := Google(cfg, pubsubScope)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s, sink
}

// Fails when a field of the exchange is wrong, or a returned token has a wider scope than necessary.
func TestGoogleExchangesTheAccountsToken(t *testing.T) {
	pool := "//iam.googleapis.com/" + poolProvider
	for name, c := range map[string]struct {
		account, token string
		requests       int
	}{
		"the federated identity itself": {"", "federated-pubsub", 1},
		"a service account of Google's": {gsa, "impersonated", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, sink := newGoogle(t, map[string]string{googleProvider: poolProvider, googleAccount: c.account}, google(pool, "k8s-s3cret-for:"+pool))
			for range 2 {
				if got, err := s.Token(t.Context()); err != nil || got != c.token {
					t.Errorf("got %q, %v; want %q", got, err, c.token)
				}
			}
			if n := len(sink.Requests()); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

// gke starts the metadata server of a GKE cluster.
func gke(t *testing.T, values map[string]string) *providertest.Sink {
	t.Helper()
	sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
		value, ok := values[r.URL.Path]
		if !ok || r.Header.Get("Metadata-Flavor") != "Google" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Metadata-Flavor", "Google")
		_, _ = w.Write([]byte(value))
	})
	t.Setenv("GCE_METADATA_HOST", sink.Listener.Addr().String())
	return sink
}

// Fails when the pool of GKE has another name than Google's, or a token of the machine's own identity is requested.
func TestOnGKETheClustersOwnPoolIsUsed(t *testing.T) {
	server := gke(t, map[string]string{
		"/computeMetadata/v1/project/project-id":                   "project-a",
		"/computeMetadata/v1/instance/attributes/cluster-location": "europe-west1",
		"/computeMetadata/v1/instance/attributes/cluster-name":     "main",
	})
	s, _ := newGoogle(t, map[string]string{googleAccount: gsa}, google(gkeAudience, "k8s-s3cret-for:project-a.svc.id.goog"))
	if got, err := s.Token(t.Context()); err != nil || got != "impersonated" {
		t.Fatalf("got %q, %v", got, err)
	}
	for _, r := range server.Requests() {
		if strings.Contains(r.Path, "service-accounts") {
			t.Errorf("the metadata server was asked for %s", r.Path)
		}
	}
}

// Fails when the error for an account without a pool does not name the cause, or the answer of another server becomes part of an
// audience.
func TestTheErrorForAnAccountWithoutAPoolNamesItsAnnotation(t *testing.T) {
	for name, values := range map[string]map[string]string{
		"no GKE": nil,
		"another server": {
			"/computeMetadata/v1/project/project-id":                   "a:https://evil/",
			"/computeMetadata/v1/instance/attributes/cluster-location": "x",
			"/computeMetadata/v1/instance/attributes/cluster-name":     "x",
		},
	} {
		gke(t, values)
		s, sink := newGoogle(t, nil, nil)
		_, err := s.Token(t.Context())
		if e := event.AsError(err); e.Class != event.Retry || !strings.Contains(e.Reason, googleProvider) || len(sink.Requests()) != 0 {
			t.Errorf("%s: %v, %d requests", name, err, len(sink.Requests()))
		}
	}
}

// Fails when a malformed annotation becomes part of a URL or an audience.
func TestAnnotationsOfAnotherFormAreRefused(t *testing.T) {
	for name, value := range map[string]string{
		googleProvider: "projects/123/locations/global/workloadIdentityPools/a/b/providers/c",
		googleAccount:  "a@b/../../x:signJwt?",
	} {
		annotations := map[string]string{googleProvider: poolProvider, googleAccount: gsa}
		annotations[name] = value
		s, sink := newGoogle(t, annotations, nil)
		_, err := s.Token(t.Context())
		if e := event.AsError(err); !strings.Contains(e.Reason, name) || strings.Contains(e.Reason, value) || len(sink.Requests()) != 0 {
			t.Errorf("%s: %v, %d requests", name, err, len(sink.Requests()))
		}
	}
}

// Fails when a refusal of either endpoint ends the delivery for good, or shows more than a known word.
func TestGooglesRefusalsAreRetriedAndNamed(t *testing.T) {
	pool := "//iam.googleapis.com/" + poolProvider
	annotations := map[string]string{googleProvider: poolProvider, googleAccount: gsa}
	for reason, h := range map[string]http.HandlerFunc{
		"HTTP 400: invalid_grant": google(pool, "another"),
		"HTTP 403: PERMISSION_DENIED": func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Authorization")
			google(pool, "k8s-s3cret-for:"+pool)(w, r)
		},
		"HTTP 404": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"error":{"status":"s3cret"}}`)
		},
	} {
		s, _ := newGoogle(t, annotations, h)
		_, err := s.Token(t.Context())
		if e := event.AsError(err); e.Class != event.Retry || e.Error() != "login at Google Cloud: "+reason {
			t.Errorf("class %d, %q; want %q", e.Class, e.Error(), reason)
		}
	}
}

// systemCA is the authority of the clouds.
var systemCA = providertest.NewSystemCA()

// Fails when the author of a Provider obtains a service account's token by a proxy and an authority of the author's own.
func TestAProvidersOwnAuthorityDoesNotSpeakForACloud(t *testing.T) {
	for name, build := range map[string]func(provider.Config, string) (*Source, error){"Azure": Azure, "Google": Google} {
		ca := providertest.NewCA(t)
		sink := ca.NewTLSSink(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"access_token":"x","expires_in":3600}`)
		}, false, "sts.googleapis.com", "login.microsoftonline.com")
		annotations := azureAnnotations()
		annotations[googleProvider] = poolProvider
		cfg := config(annotations)
		cfg.TLS.CA = ca.PEM()
		cfg.Proxy = provider.Proxy{Address: providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p").URL, Username: "u", Password: "p"}
		s, err := build(cfg, scope)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Token(t.Context()); err == nil || len(sink.Requests()) != 0 {
			t.Errorf("%s: %v, the author got %d requests with the account's token", name, err, len(sink.Requests()))
		}
		_ = s.client.Close()
	}
}

package builtin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"notifier/internal/builtin"
)

// request is the part of a request to the API server that a test compares.
type request struct {
	Line, Accept, ContentType, APIVersion, Kind string
}

// apiServer is an API server that answers with status and answer, and keeps the last request.
type apiServer struct {
	status int
	answer string
	got    request
	agent  string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body metav1.TypeMeta
	if r.ContentLength > 0 {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	s.got = request{r.Method + " " + r.URL.String(), r.Header.Get("Accept"), r.Header.Get("Content-Type"), body.APIVersion, body.Kind}
	s.agent = r.UserAgent()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.status)
	_, _ = w.Write([]byte(s.answer))
}

func client(t *testing.T, s *apiServer, config rest.Config, gv schema.GroupVersion) *rest.RESTClient {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	config.Host = server.URL
	c, err := builtin.NewClient(&config, gv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Fails when a request goes elsewhere, is not in JSON, or leaves out its kind.
func TestARequestNamesItsKindInJSON(t *testing.T) {
	const plain = "application/json"
	for name, tc := range map[string]struct {
		gv     schema.GroupVersion
		answer string
		ask    func(*rest.RESTClient) (any, error)
		want   request
		got    any
	}{
		"an object of a namespace": {
			gv: corev1.SchemeGroupVersion, answer: `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"uid":"7"}}`,
			ask: func(c *rest.RESTClient) (any, error) {
				a, err := builtin.In[corev1.ServiceAccount](c, "serviceaccounts", "team-a").Get(t.Context(), "x", metav1.GetOptions{ResourceVersion: "0"})
				return string(a.UID), err
			},
			want: request{Line: "GET /api/v1/namespaces/team-a/serviceaccounts/x?resourceVersion=0", Accept: plain}, got: "7",
		},
		"a token": {
			gv: corev1.SchemeGroupVersion, answer: `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"t"}}`,
			ask: func(c *rest.RESTClient) (any, error) {
				issued, err := builtin.Token(t.Context(), c, "team-a", "x", authenticationv1.TokenRequestSpec{})
				return issued.Token, err
			},
			want: request{
				Line: "POST /api/v1/namespaces/team-a/serviceaccounts/x/token", Accept: plain, ContentType: plain,
				APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest",
			}, got: "t",
		},
		"a review of a token": {
			gv: authenticationv1.SchemeGroupVersion, answer: `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true}}`,
			ask: func(c *rest.RESTClient) (any, error) {
				r, err := builtin.In[authenticationv1.TokenReview](c, "tokenreviews", "").Create(t.Context(), &authenticationv1.TokenReview{}, metav1.CreateOptions{})
				return r.Status.Authenticated, err
			},
			want: request{
				Line: "POST /apis/authentication.k8s.io/v1/tokenreviews", Accept: plain, ContentType: plain,
				APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview",
			}, got: true,
		},
		"a review of a right": {
			gv: authorizationv1.SchemeGroupVersion, answer: `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`,
			ask: func(c *rest.RESTClient) (any, error) {
				reviews := builtin.In[authorizationv1.SubjectAccessReview](c, "subjectaccessreviews", "")
				r, err := reviews.Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
				return r.Status.Allowed, err
			},
			want: request{
				Line: "POST /apis/authorization.k8s.io/v1/subjectaccessreviews", Accept: plain, ContentType: plain,
				APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview",
			}, got: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &apiServer{status: http.StatusOK, answer: tc.answer}
			protobuf := rest.Config{ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}
			got, err := tc.ask(client(t, s, protobuf, tc.gv))
			if err != nil || got != tc.got {
				t.Errorf("got %v, %v, want %v", got, err, tc.got)
			}
			if diff := cmp.Diff(tc.want, s.got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Fails when a refusal loses the API server's reason or text.
func TestARefusalHasTheServersWords(t *testing.T) {
	s := &apiServer{status: http.StatusForbidden, answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no pods for you",
		"reason":"Forbidden","code":403}`}
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion} {
		err := client(t, s, rest.Config{}, gv).Get().Resource("pods").Do(t.Context()).Error()
		if !apierrors.IsForbidden(err) || err.Error() != "no pods for you" {
			t.Errorf("%s: %v", gv, err)
		}
	}
	// An answer of another kind than the requested one is none.
	s.status = http.StatusOK
	if err := client(t, s, rest.Config{}, corev1.SchemeGroupVersion).Get().Resource("pods").Do(t.Context()).Into(&corev1.PodList{}); err == nil {
		t.Error("a failure is read as a list")
	}
}

// Fails when clients share a budget that their configuration does not, or have another one, or when a client does not name its program.
func TestAClientHasTheBudgetAndTheNameOfItsConfiguration(t *testing.T) {
	s := &apiServer{status: http.StatusOK, answer: `{}`}
	limited := rest.Config{QPS: 7, Burst: 9, UserAgent: "notifier/1"}
	one, two := client(t, s, limited, corev1.SchemeGroupVersion), client(t, s, limited, corev1.SchemeGroupVersion)
	if one.GetRateLimiter().QPS() != 7 || one.GetRateLimiter() == two.GetRateLimiter() {
		t.Errorf("got the limiters %v and %v", one.GetRateLimiter(), two.GetRateLimiter())
	}
	limited.RateLimiter = one.GetRateLimiter()
	if got := client(t, s, limited, corev1.SchemeGroupVersion).GetRateLimiter(); got != limited.RateLimiter {
		t.Errorf("got %v, want the limiter of the configuration", got)
	}
	if got := client(t, s, rest.Config{QPS: -1}, corev1.SchemeGroupVersion).GetRateLimiter(); got != nil {
		t.Errorf("got the limiter %v, want none", got)
	}
	for given, want := range map[string]string{"notifier/1": "notifier/1", "": "(" /* the system and the architecture */} {
		_ = client(t, s, rest.Config{UserAgent: given}, corev1.SchemeGroupVersion).Get().Resource("pods").Do(t.Context())
		if !strings.Contains(s.agent, want) {
			t.Errorf("got the user agent %q, want %q", s.agent, want)
		}
	}
}

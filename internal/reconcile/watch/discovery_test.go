package watch

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// answers is an API server that maps paths to JSON answers.
type answers map[string]string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, a[r.URL.Path]
	if !strings.HasPrefix(r.Header.Get("Accept"), aggregated) {
		body = `{"kind":"APIGroupList"}`
	}
	if body == "" {
		code = http.StatusNotFound
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// Fails when the core group is left out, when the answer with all resources is not requested, or when another is mistaken for it.
func TestTheServerIsAskedForEverythingAtOnce(t *testing.T) {
	const core = `{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"version":"v1","resources":[{"resource":"pods"}]}]}]}`
	const others = `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a.example"}},{"metadata":{"name":"b.example"}}]}`
	for name, tc := range map[string]struct {
		answers answers
		want    string // the groups, comma after each
		fails   string
	}{
		"all groups":                 {answers{"/api": core, "/apis": others}, ",a.example,b.example,", ""},
		"a server that has only one": {answers{"/api": core}, "", "discovery of /apis"},
		"a server before 1.30": {
			answers{"/api": `{"kind":"APIVersions"}`, "/apis": `{"kind":"APIGroupList"}`}, "", "does not list what all its groups serve",
		},
		"no JSON": {answers{"/api": core, "/apis": "<html>"}, "", "discovery of /apis"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := NewServer(restConfig(tc.answers), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			groups, err := server.All(t.Context())
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v", err)
				}
				return
			}
			got := ""
			for _, g := range groups {
				got += g.Name + ","
			}
			if err != nil || got != tc.want || groups[0].Versions[0].Resources[0].Resource != "pods" {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// refusing refuses every request with a Status.
type refusing string

func (message refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":"Forbidden","code":403}`, string(message))
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusForbidden, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// Fails when the log says "unknown" of a request for which the process lacks a right.
func TestARefusedRequestIsToldInTheServersWords(t *testing.T) {
	server, err := NewServer(restConfig(refusing("the process may not get this")), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, all := server.All(t.Context())
	_, one := server.Definition(t.Context(), "alerts.notification.toolkit.fluxcd.io")
	for _, err := range []error{all, one} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the process may not get this") {
			t.Errorf("got %v", err)
		}
	}
}

func restConfig(transport http.RoundTripper) *rest.Config {
	return &rest.Config{Host: "http://api.test", Transport: transport}
}

package azuredevops

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const (
	commit = "4d5c2c3a9b7e4d5c2c3a9b7e4d5c2c3a9b7e4d5c"
	basic  = "Basic OnBhdC1zM2NyZXQ=" // of no user, and pat-s3cret
	uid    = "0c9c2e41-8a43-4bd5-9d0c-6a2f6f1f5c11"
)

var newForTest = providertest.BuildWith(New, map[string]string{"commit": commit})

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New:    newForTest,
		Config: provider.Config{Type: "azuredevops", UID: uid, Token: "pat-s3cret"},
		Serve:  (&vendor{auth: basic}).ServeHTTP, Requests: 2, Path: "team/platform/_git/fleet-s3cret", Reads: true,
	})
}

// newTo returns a Sender to v.
func newTo(t *testing.T, v *vendor) (provider.Sender, *providertest.Sink) {
	t.Helper()
	v.auth = basic
	sink := providertest.NewSink(t, v.ServeHTTP)
	return providertest.NewSender(t, newForTest, provider.Config{
		Type: "azuredevops", Address: sink.URL + "/team/platform%20x/_git/fleet", UID: uid, Token: "pat-s3cret",
		Network: providertest.Loopback(),
	}), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newTo(t, &vendor{})
	providertest.Golden(t, "status", s, sink)
}

// Fails when a status is posted although the last one of its context is the same, or is not posted although it differs.
func TestAStatusIsPostedWhenTheLastOfItsContextDiffers(t *testing.T) {
	v := &vendor{keep: true}
	s, _ := newTo(t, v)
	providertest.Statuses(t, s, func() int { return v.posts })
	want := statusContext{Genre: "fluxcd", Name: "kustomization/apps/0c9c2e41"}
	for _, got := range v.statuses {
		if got.Context != want {
			t.Errorf("got %+v, want %+v", got.Context, want)
		}
	}
}

// Fails when a replay ignores the time at which Azure DevOps took the last status, or an older status counts as newer than the event.
func TestAReplayedFailureDoesNotReplaceANewerStatus(t *testing.T) {
	for created, posts := range map[string]int{
		"2026-03-04T05:06:06.9999999Z": 2, "2026-03-04T05:06:07.0000001Z": 1, "2027-01-01T00:00:00Z": 1, "nonsense": 2,
	} {
		v := &vendor{keep: true}
		first, _ := newTo(t, v)
		providertest.SendAll(t, first, providertest.Notifications(t)["info"])
		v.statuses[0].Created = created
		s, _ := newTo(t, v)                         // another process
		n := providertest.Notifications(t)["error"] // of 05:06:07
		n.Replayed = true
		if providertest.SendAll(t, s, n); v.posts != posts {
			t.Errorf("after a status of %s: %d posts, want %d", created, v.posts, posts)
		}
	}
}

// Fails when an attempt whose answer was lost posts twice.
func TestAnAttemptWhoseAnswerWasLostPostsOnce(t *testing.T) {
	v := &vendor{keep: true, auth: basic}
	providertest.LoseAnswer(t, v.ServeHTTP, func(address string) (provider.Sender, error) {
		return newForTest(provider.Config{Address: address + "/o/p/_git/r", Token: "pat-s3cret", Network: providertest.Loopback()})
	})
	if v.posts != 1 {
		t.Errorf("%d were posted", v.posts)
	}
}

// Fails when an address in a form that Azure DevOps shows for cloning is misread.
func TestTheAddressIsThatForCloning(t *testing.T) {
	for address, want := range map[string]string{
		"https://dev.azure.com/o/p/_git/r":                      "https://dev.azure.com/o p r",
		"https://o@dev.azure.com/o/My%20Project/_git/r":         "https://dev.azure.com/o My Project r",
		"https://dev.azure.com/o/_git/r":                        "https://dev.azure.com/o r r",
		"git@ssh.dev.azure.com:v3/o/p/r":                        "https://dev.azure.com/o p r",
		"ssh://git@ssh.dev.azure.com/v3/o/p/r":                  "https://dev.azure.com/o p r",
		"o@vs-ssh.visualstudio.com:v3/o/p/r":                    "https://dev.azure.com/o p r",
		"https://o.visualstudio.com/p/_git/r":                   "https://o.visualstudio.com/ p r",
		"https://o.visualstudio.com/_git/r":                     "https://o.visualstudio.com/ r r",
		"https://o.visualstudio.com/DefaultCollection/p/_git/r": "https://o.visualstudio.com/DefaultCollection p r",
		"https://o.visualstudio.com/DefaultCollection/_git/r":   "https://o.visualstudio.com/DefaultCollection r r",
		"https://tfs.test:8080/tfs/a%20b/p/_git/r":              "https://tfs.test:8080/tfs/a%20b p r",
		"https://tfs.test/tfs/defaultcollection/_git/r":         "https://tfs.test/tfs/defaultcollection r r",
		"https://dev.azure.com/_git/r":                          "",
		"https://dev.azure.com/o/p/r":                           "",
		"https://dev.azure.com/o/p/_git":                        "",
		"https://dev.azure.com/o/p/_git/r/x":                    "",
		"git@ssh.dev.azure.com:o/p/_git/r":                      "",
	} {
		cfg := provider.Config{Address: address}
		h, err := locate(&cfg)
		if got := cfg.Address + " " + h.project + " " + h.repo; want != "" && (err != nil || got != want) || want == "" && err == nil {
			t.Errorf("%s: got %s, %v; want %s", address, got, err, want)
		}
	}
	if _, err := New(provider.Config{Token: "t"}); !errors.Is(err, provider.ErrNoAddress) {
		t.Errorf("got %v, want an error that says where an address is looked for", err)
	}
}

// Fails when statuses of two summaries count as one, or when the first of several listed statuses counts as the last.
func TestASummaryIsAGenreOfItsOwn(t *testing.T) {
	v := &vendor{keep: true}
	s, _ := newTo(t, v)
	all := providertest.Notifications(t)
	for range 2 {
		providertest.SendAll(t, s, all["info"], all["metadata"])
	}
	if v.posts != 2 || v.statuses[1].Context.Genre != "fluxcd:Production cluster, Frankfurt" {
		t.Errorf("%d posts: %+v", v.posts, v.statuses)
	}
	older := v.statuses[0]
	older.ID, older.State = 0, "error"
	v.unordered = []status{v.statuses[0], older}
	if providertest.SendAll(t, s, all["info"]); v.posts != 2 {
		t.Errorf("%d posts: the older status counts", v.posts)
	}
}

// Fails when the page to sign in counts as an answer: every status would be lost silently.
func TestAPageToSignInIsARefusal(t *testing.T) {
	v := &vendor{}
	for _, refused := range []string{http.MethodGet, http.MethodPost} {
		sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
			v.auth = basic
			if r.Method == refused {
				r.Header.Del("X-Tfs-Fedauthredirect")
				r.Header.Del("Authorization")
			}
			v.ServeHTTP(w, r)
		})
		s := providertest.NewSender(t, newForTest, provider.Config{
			Address: sink.URL + "/o/p/_git/r", Token: "pat-s3cret", Network: providertest.Loopback(),
		})
		e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if e == nil || e.Class != event.Permanent || e.Label != provider.LabelRejected || !strings.Contains(e.Reason, "credentials") {
			t.Errorf("%s: got %v", refused, e)
		}
	}
	s, _ := newTo(t, v)
	v.auth = "Basic of another"
	if e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); e == nil || e.Reason != "HTTP 401" {
		t.Errorf("got %v: Azure DevOps was not asked to refuse", e)
	}
}

// systemCA is the authority of Azure DevOps.
var systemCA = providertest.NewSystemCA()

// Fails when a service account's token is sent to a host that is not Microsoft's, or unencrypted.
func TestAnAccountsTokenIsForTheServiceAlone(t *testing.T) {
	for address, want := range map[string]bool{
		"https://dev.azure.com/o/p/_git/r": true, "https://o.visualstudio.com/p/_git/r": true, "git@ssh.dev.azure.com:v3/o/p/r": true,
		"https://evil.example/o/p/_git/r": false, "https://evilvisualstudio.com/o/p/_git/r": false, "http://dev.azure.com/o/p/_git/r": false,
		"https://dev.azure.com.evil.example/o/p/_git/r": false, "https://dev.azure.com@evil.example/o/p/_git/r": false,
	} {
		s, err := New(provider.Config{
			Address: address, ServiceAccount: "flux", Identity: func(context.Context, string) (string, error) { return "k8s", nil },
			Annotations: func(context.Context) (map[string]string, error) { return nil, nil },
		})
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

// Fails when the workload identity's token is sent as a personal access token, is requested for another audience or scope, or is
// requested anew for each request.
func TestAWorkloadIdentityLogsInWithABearerToken(t *testing.T) {
	logins := 0
	entra := func(w http.ResponseWriter, r *http.Request) {
		logins++
		if r.FormValue("scope") != "499b84ac-1321-427f-aa17-267ca6975798/.default" || r.FormValue("client_id") != "client" ||
			r.FormValue("client_assertion") != "of api://AzureADTokenExchange" || r.URL.Path != "/tenant/oauth2/v2.0/token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"token_type":"Bearer","expires_in":3599,"access_token":"entra-s3cret"}`)
	}
	t.Setenv("AZURE_AUTHORITY_HOST", "")
	v := &vendor{auth: "Bearer entra-s3cret", keep: true}
	sink := systemCA.NewTLSSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "dev.azure.com" {
			v.ServeHTTP(w, r)
		} else {
			entra(w, r)
		}
	}, false, "dev.azure.com", "login.microsoftonline.com")
	cfg := provider.Config{
		Address: "https://dev.azure.com/o/p/_git/r", ServiceAccount: "flux", Network: providertest.Loopback(),
		Proxy:    provider.Proxy{Address: providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p").URL, Username: "u", Password: "p"},
		TLS:      provider.TLS{CA: providertest.NewCA(t).PEM()}, // which did not sign Azure DevOps' certificate
		Identity: func(_ context.Context, audience string) (string, error) { return "of " + audience, nil },
		Annotations: func(context.Context) (map[string]string, error) {
			return map[string]string{"azure.workload.identity/client-id": "client", "azure.workload.identity/tenant-id": "tenant"}, nil
		},
	}
	s := providertest.NewSender(t, newForTest, cfg)
	providertest.SendAll(t, s, providertest.Notifications(t)["error"])
	if providertest.SendAll(t, s, providertest.Notifications(t)["info"]); v.posts != 2 || logins != 1 {
		t.Errorf("%d posts, %d logins", v.posts, logins)
	}
	cfg.TLS, cfg.Values = provider.TLS{}, map[string]string{"ca.crt": string(cfg.TLS.CA)} // which the Secret has in its place
	providertest.SendAll(t, providertest.NewSender(t, newForTest, cfg), providertest.Notifications(t)["error"])
	cfg.Identity = nil
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "workload identity") {
		t.Errorf("without workload identity: %v", err)
	}
	cfg.Token, v.auth = "pat-s3cret", basic // the token takes precedence over the account
	cfg.Values = nil
	providertest.SendAll(t, providertest.NewSender(t, newForTest, cfg), providertest.Notifications(t)["error"])
	for _, token := range []string{"", "s3cret\n"} {
		_, err := New(provider.Config{Address: cfg.Address, Token: token, Network: cfg.Network})
		if err == nil || !strings.Contains(err.Error(), "key token") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// Fails when a known message of Azure DevOps is left out, or when any other part of an answer is shown.
func TestKnownReasonsAreShownAndNothingElse(t *testing.T) {
	providertest.Refusals(t, map[string]string{
		`{"message":"s3cret","typeKey":"GitCommitDoesNotExistException","errorCode":0}`: "HTTP 403: GitCommitDoesNotExistException",
		`{"message":"s3cret","typeKey":"s3cret"}`:                                       "HTTP 403",
		`s3cret`: "HTTP 403",
		``:       "HTTP 403",
	}, func(address string) (provider.Sender, error) {
		return newForTest(provider.Config{Address: address + "/o/p/_git/r", Token: "t", Network: providertest.Loopback()})
	})
}

// Fails when an answer that is not Azure DevOps' counts as one, or the TLS material of the Secret goes unused.
func TestAReplyNotFromAzureDevOpsIsARetryableError(t *testing.T) {
	for _, faulty := range []string{http.MethodGet, http.MethodPost} {
		sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
			answer := "{}"
			if r.Method == faulty {
				answer = "[1]"
			}
			_, _ = io.WriteString(w, answer)
		})
		s := providertest.NewSender(t, newForTest, provider.Config{
			Address: sink.URL + "/o/p/_git/r", Token: "t", Network: providertest.Loopback(),
		})
		e := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"]))
		if e == nil || e.Class != event.Retry || e.Label != provider.LabelReply {
			t.Errorf("%s: got %v", faulty, e)
		}
	}
	values := map[string]string{"ca.crt": "none"}
	if _, err := New(provider.Config{Address: "https://dev.azure.com/o/p/_git/r", Token: "t", Values: values}); err == nil {
		t.Error("New took a CA that is none")
	}
}

// Fails when a text is longer than Azure DevOps takes.
func TestTheLongestTextsAreTaken(t *testing.T) {
	v := &vendor{}
	s, _ := newTo(t, v)
	n := providertest.Notifications(t)["error"]
	n.Event.Reason = strings.Repeat("Äx", 1000)
	n.Event.InvolvedObject.Kind, n.Event.InvolvedObject.Name = strings.Repeat("K", 253), strings.Repeat("ä", 126)
	n.Event.Metadata = map[string]string{"summary": strings.Repeat("ß", 1000)}
	if providertest.SendAll(t, s, n); v.posts != 1 {
		t.Errorf("%d were posted", v.posts)
	}
}

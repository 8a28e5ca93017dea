package azuredevops

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/cloudauth"
	"notifier/internal/alerts/provider/githost"
	"notifier/internal/event"
)

const (
	// apiVersion is the version of Azure DevOps Server 2019, which later servers and the service have too.
	apiVersion = "5.0"
	scope      = "499b84ac-1321-427f-aa17-267ca6975798/.default" // Azure DevOps at Microsoft Entra ID
	genre      = "fluxcd"
	maxText    = 255     // characters
	maxReply   = 2 << 20 // bytes of an answer, which has up to 1,000 statuses
)

// host makes the calls of the API for one repository.
type host struct {
	client        *provider.Client
	project, repo string
}

// status is a commit's status as Azure DevOps writes and reads it.
type status struct {
	ID          int64         `json:"id,omitempty"`
	State       string        `json:"state"`
	Description string        `json:"description"`
	Context     statusContext `json:"context"`
	Created     string        `json:"creationDate,omitempty"`
}

type statusContext struct {
	Genre string `json:"genre"`
	Name  string `json:"name"`
}

// New returns a Sender for one repository. It needs the repository's address, and a token or a service account.
func New(cfg provider.Config) (*githost.Statuses, error) {
	h, addressErr := locate(&cfg)
	o := provider.ClientOptions{Login: login, MaxReply: maxReply, TakesPages: true, Word: word}
	var source *cloudauth.Source
	var sourceErr error
	if cfg.Token == "" && cfg.ServiceAccount != "" && isService(cfg.Address) {
		if source, sourceErr = cloudauth.Azure(cfg, scope); sourceErr == nil {
			source.LogIn(&o)
		}
		cfg = cloudauth.Public(cfg)
	}
	client, clientErr := provider.NewClient(cfg, o)
	if err := errors.Join(addressErr, sourceErr, clientErr); err != nil {
		return nil, err
	}
	h.client = client
	return githost.NewStatuses(cfg, client, h, form), nil
}

// form is that of Azure DevOps.
var form = githost.Form{Succeeded: "succeeded", Failed: "error", Name: maxText, Description: maxText, Commit: provider.SHA1Digits}

// login returns the headers of each request, with the token if there is one.
func login(cfg provider.Config) (http.Header, error) {
	header := http.Header{
		"Accept": {"application/json"},
		// Invalid credentials are then answered 401, not with a page for browsers.
		"X-Tfs-Fedauthredirect": {"Suppress"},
	}
	switch {
	case cfg.Token != "":
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(":"+cfg.Token)))
		return header, provider.CheckKey("token", cfg.Token)
	case cfg.ServiceAccount == "":
		return nil, errors.New("the Secret has no credentials; write the key token into it, or name an account in spec.serviceAccountName")
	case !isService(cfg.Address):
		return nil, errors.New("spec.serviceAccountName logs in at dev.azure.com and *.visualstudio.com alone, by https: for another server the Secret needs the key token")
	}
	return header, nil
}

// LastStatus looks for the context among the last statuses of the commit's contexts.
func (h host) LastStatus(ctx context.Context, s githost.Status) (githost.Last, error) {
	var reply struct {
		Value provider.List[status] `json:"value"`
	}
	r := provider.Request{Method: http.MethodGet, URL: h.statuses(s.Commit, url.Values{"latestOnly": {"true"}})}
	if err := h.call(ctx, r, &reply); err != nil {
		return githost.Last{}, err
	}
	want := statusOf(s)
	var last status
	for _, old := range reply.Value {
		if old.Context == want.Context && old.ID >= last.ID {
			last = old
		}
	}
	set, _ := time.Parse(time.RFC3339, last.Created)
	return githost.Last{State: last.State, Description: last.Description, Set: set}, nil
}

// SetStatus posts a status.
func (h host) SetStatus(ctx context.Context, s githost.Status) error {
	return h.call(ctx, provider.Request{URL: h.statuses(s.Commit, url.Values{}), JSON: statusOf(s)}, &status{})
}

// statuses returns the address of a commit's statuses in the API.
func (h host) statuses(commit string, query url.Values) *url.URL {
	u := h.client.URL(h.project, "_apis", "git", "repositories", h.repo, "commits", commit, "statuses")
	query.Set("api-version", apiVersion)
	u.RawQuery = query.Encode()
	return u
}

// call makes a request of the API and decodes its answer into reply.
func (h host) call(ctx context.Context, r provider.Request, reply any) error {
	answer, err := h.client.Do(ctx, r)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(bytes.TrimSpace(answer), []byte("<")) {
		return event.NewError(event.Permanent, provider.LabelRejected,
			"Azure DevOps answered with its page to sign in: the credentials are not valid", nil)
	}
	return provider.DecodeJSON(answer, reply, "Azure DevOps' API")
}

// statusOf returns a status as Azure DevOps has it.
func statusOf(s githost.Status) status {
	made := status{State: s.State, Description: s.Description, Context: statusContext{Genre: genre, Name: s.Name}}
	if s.Summary != "" {
		made.Context.Genre = githost.Shorten(genre+":"+s.Summary, maxText)
	}
	return made
}

// word returns the part of a refusal's answer that is shown: Azure DevOps' name of the reason.
var word = provider.WordAt("typeKey",
	"GitCommitDoesNotExistException", "GitNeedsPermissionException", "GitRepositoryNotFoundException", "GitUnresolvableToCommitException",
	"InvalidArgumentValueException", "ProjectDoesNotExistWithNameException", "UnauthorizedRequestException",
)

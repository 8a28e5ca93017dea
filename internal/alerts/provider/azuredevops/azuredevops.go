package azuredevops

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"maps"
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

// Sender writes statuses in one repository.
type Sender struct {
	*githost.Statuses
	host
}

// host makes the calls of the API for one repository.
type host struct {
	client        *provider.Client
	project, repo string
	// login returns the access tokens of a workload identity. It is nil if a personal access token logs in.
	login *cloudauth.Source
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

// New returns a Sender. It needs a repository's address, and a token or a service account.
func New(cfg provider.Config) (*Sender, error) {
	h, addressErr := locate(&cfg)
	cfg = cfg.WithSecretTLS()
	header := http.Header{
		"Accept": {"application/json"},
		// Invalid credentials are then answered 401, not with a page for browsers.
		"X-Tfs-Fedauthredirect": {"Suppress"},
	}
	login, authErr := authorize(cfg, header)
	if login != nil {
		cfg = cloudauth.Public(cfg)
	}
	client, clientErr := provider.NewClient(cfg, provider.ClientOptions{Header: header, MaxReply: maxReply, Word: word})
	if err := errors.Join(addressErr, authErr, clientErr); err != nil {
		return nil, err
	}
	h.client, h.login = client, login
	limits := githost.Limits{Name: maxText, Description: maxText, Commit: provider.SHA1Digits}
	return &Sender{githost.NewStatuses(cfg, client, h, limits, false), h}, nil
}

// authorize adds the credentials of a Config to header, or returns the source of the credentials for each request.
func authorize(cfg provider.Config, header http.Header) (*cloudauth.Source, error) {
	switch {
	case cfg.Token != "":
		if err := provider.CheckKey("token", cfg.Token); err != nil {
			return nil, err
		}
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(":"+cfg.Token)))
		return nil, nil
	case cfg.ServiceAccount != "" && !isService(cfg.Address):
		return nil, errors.New("spec.serviceAccountName logs in at dev.azure.com and *.visualstudio.com alone, by https: for another server the Secret needs the key token")
	case cfg.ServiceAccount != "":
		return cloudauth.Azure(cfg, scope)
	default:
		return nil, errors.New("the Secret has no credentials; write the key token into it, or name an account in spec.serviceAccountName")
	}
}

// Close closes idle connections.
func (s *Sender) Close() error { return errors.Join(s.client.Close(), s.login.Close()) }

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
	return githost.Last{Same: last.State == want.State && last.Description == want.Description, Set: set}, nil
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
	if h.login != nil {
		token, err := h.login.Token(ctx)
		if err != nil {
			return err
		}
		header := http.Header{"Authorization": {"Bearer " + token}}
		maps.Copy(header, r.Header)
		r.Header = header
	}
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
	made := status{State: "succeeded", Description: s.Description, Context: statusContext{Genre: genre, Name: s.Name}}
	if s.State == githost.Failed {
		made.State = "error"
	}
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

package bitbucketserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/bitbucket"
	"notifier/internal/alerts/provider/githost"
)

const (
	maxLink  = 450      // characters of the link
	maxReply = 64 << 10 // bytes of an answer, which is one build
)

// host makes the calls of the API for one repository.
type host struct {
	client        *provider.Client
	project, repo string
}

// New returns a Sender for one repository. It needs the address that Bitbucket shows for cloning over HTTP, and a token, or a user and a
// password.
func New(cfg provider.Config) (*githost.Statuses, error) {
	h, addressErr := locate(&cfg)
	client, clientErr := provider.NewClient(cfg, provider.ClientOptions{Login: login, MaxReply: maxReply, Word: word})
	if err := errors.Join(addressErr, clientErr); err != nil {
		return nil, err
	}
	h.client = client
	return githost.NewStatuses(cfg, client, h, bitbucket.Form), nil
}

// login returns the headers of each request.
func login(cfg provider.Config) (http.Header, error) {
	header, err := cfg.RequireLogin()
	if err == nil {
		header.Set("X-Atlassian-Token", "no-check") // without it Bitbucket may reject a POST as forged
	}
	return header, err
}

// errAddress describes the form of an address.
var errAddress = errors.New("address is not the one for cloning from Bitbucket over HTTP; " +
	"it has the form bitbucket.example.com/scm/project/repository.git, with https before it")

// locate returns the repository of cfg.Address and replaces that address by the server's, with the path that the server is installed
// under.
func locate(cfg *provider.Config) (host, error) {
	address := strings.ToLower(strings.TrimSpace(cfg.Address))
	if address != "" && !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		return host{}, errAddress
	}
	at, err := githost.ParseRepository(cfg.Address)
	if err != nil {
		return host{}, err
	}
	path := at.Segments()
	if len(path) < 3 || path[len(path)-3] != "scm" {
		return host{}, errAddress
	}
	project, repo, path := path[len(path)-2], path[len(path)-1], path[:len(path)-3]
	cfg.Address = githost.Below(at.Base(), path)
	return host{project: project, repo: repo}, nil
}

// builds returns the address of a commit's builds.
func (h host) builds(commit string) *url.URL {
	return h.client.URL("rest", "api", "latest", "projects", h.project, "repos", h.repo, "commits", commit, "builds")
}

// LastStatus reads the build of the status's key.
func (h host) LastStatus(ctx context.Context, s githost.Status) (githost.Last, error) {
	u := h.builds(s.Commit)
	u.RawQuery = url.Values{"key": {h.build(s).Key}}.Encode()
	var old struct {
		bitbucket.Build
		Updated int64 `json:"updatedDate"` // milliseconds since 1970
	}
	r := provider.Request{Method: http.MethodGet, URL: u}
	if err := h.client.Exchange(ctx, r, &old, "Bitbucket's API"); provider.StatusOf(err) == http.StatusNotFound {
		return githost.Last{}, nil
	} else if err != nil {
		return githost.Last{}, err
	}
	last := githost.Last{State: old.State, Description: old.Description}
	if old.Updated > 0 {
		last.Set = time.UnixMilli(old.Updated)
	}
	return last, nil
}

// SetStatus writes the build of the status's key.
func (h host) SetStatus(ctx context.Context, s githost.Status) error {
	_, err := h.client.Do(ctx, provider.Request{URL: h.builds(s.Commit), JSON: h.build(s)})
	return err
}

// build returns a status of the repository. Beside a commit Bitbucket shows its name alone.
func (h host) build(s githost.Status) bitbucket.Build {
	return bitbucket.NewBuild(s, s.Object+" ["+s.Description+"]", h.link(s.Commit))
}

// link returns the page of a commit or, if its URL is too long, of the server.
func (h host) link(commit string) string {
	u := h.client.URL("projects", h.project, "repos", h.repo, "commits", commit)
	u.User, u.RawQuery = nil, ""
	if link := u.String(); len(link) <= maxLink {
		return link
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// exceptions are Bitbucket's names of the reasons of its refusals.
var exceptions = []string{
	"ArgumentValidationException", "AuthorisationException", "IncorrectPasswordAuthenticationException", "NoSuchCommitException",
	"NoSuchProjectException", "NoSuchRepositoryException",
}

// word returns the part of a refusal's answer that is shown.
func word(answer []byte) string {
	var reply struct {
		Errors []struct {
			Exception string `json:"exceptionName"`
		} `json:"errors"`
	}
	if json.Unmarshal(answer, &reply) != nil || len(reply.Errors) == 0 {
		return ""
	}
	name := reply.Errors[0].Exception
	return provider.KnownWord(exceptions, name[strings.LastIndexByte(name, '.')+1:])
}

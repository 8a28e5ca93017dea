package bitbucket

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // a name, not a signature
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

const (
	site        = "https://bitbucket.org"
	api         = "https://api.bitbucket.org/2.0"
	apiVariable = "BITBUCKET_API_BASE_URL" // replaces api
	apiHost     = "api.bitbucket.org"

	maxText  = 255      // characters of a status's name and of its description
	maxLink  = 450      // characters of its link
	maxReply = 64 << 10 // bytes of an answer, which is one status
)

// limit keeps the requests of a rolling hour, two per send, below the 1,000 that Bitbucket grants an account.
var limit = provider.Limit{Rate: 300.0 / 3600, Burst: 200}

// Form is that of Bitbucket, in the cloud and of one's own.
var Form = githost.Form{Succeeded: "SUCCESSFUL", Failed: "FAILED", Description: maxText, Commit: provider.SHA1Digits}

// host makes the calls of the API for one repository.
type host struct {
	client      *provider.Client
	owner, repo string
}

// Build is a build status as Bitbucket, in the cloud and of one's own, writes and reads it.
type Build struct {
	Key         string `json:"key"`
	State       string `json:"state"`
	Name        string `json:"name"`
	Description string `json:"description"`
	URL         string `json:"url"`
}

// New returns a Sender for one repository. It needs the repository's address and a token, or a user's name and a password.
func New(cfg provider.Config) (*githost.Statuses, error) {
	return newSender(cfg, cmp.Or(os.Getenv(apiVariable), api))
}

func newSender(cfg provider.Config, api string) (*githost.Statuses, error) {
	h, addressErr := locate(cfg.Address)
	cfg.Address = api
	client, clientErr := provider.NewClient(cfg, provider.ClientOptions{
		Login: login, MaxReply: maxReply, Word: word, Limit: provider.LimitOn(limit, apiHost),
	})
	if err := errors.Join(addressErr, clientErr); err != nil {
		return nil, err
	}
	h.client = client
	return githost.NewStatuses(cfg, client, h, Form), nil
}

// locate returns the repository of an address.
func locate(address string) (host, error) {
	at, err := githost.ParseRepository(address)
	if err != nil {
		return host{}, err
	}
	owner, repo, err := at.OwnerAndName()
	if err != nil {
		return host{}, errors.New("address is no repository of Bitbucket Cloud; it has the form bitbucket.org/workspace/repository, " +
			"with https before it (for a Bitbucket of your own use type bitbucketserver)")
	}
	return host{owner: owner, repo: repo}, nil
}

// login returns the header of a Config's credentials. Its token may be a user's name and a password.
func login(cfg provider.Config) (http.Header, error) {
	user, password, pair := strings.Cut(cfg.Token, ":")
	switch {
	case strings.Contains(password, ":"):
		return nil, errors.New("the Secret's key token has more than one colon; it is user:password, or an access token without a colon")
	case pair:
		return provider.Basic(user, password)
	default:
		return cfg.RequireLogin()
	}
}

// LastStatus reads the status of the key.
func (h host) LastStatus(ctx context.Context, s githost.Status) (githost.Last, error) {
	var old struct {
		Build
		Updated string `json:"updated_on"`
	}
	r := provider.Request{Method: http.MethodGet, URL: h.builds(s.Commit, h.build(s).Key)}
	if err := h.client.Exchange(ctx, r, &old, "Bitbucket's API"); provider.StatusOf(err) == http.StatusNotFound {
		return githost.Last{}, nil // of the key, or of the repository, which the next call reports
	} else if err != nil {
		return githost.Last{}, err
	}
	set, _ := time.Parse(time.RFC3339, old.Updated)
	return githost.Last{State: old.State, Description: old.Description, Set: set}, nil
}

// SetStatus writes the status of the key.
func (h host) SetStatus(ctx context.Context, s githost.Status) error {
	_, err := h.client.Do(ctx, provider.Request{URL: h.builds(s.Commit), JSON: h.build(s)})
	return err
}

// builds returns the address of a commit's build statuses in the API, or of the build status with the key.
func (h host) builds(commit string, key ...string) *url.URL {
	return h.client.URL(append([]string{"repositories", h.owner, h.repo, "commit", commit, "statuses", "build"}, key...)...)
}

// NewBuild returns a status as Bitbucket has it, to be shown with a name and a link.
func NewBuild(s githost.Status, name, link string) Build {
	sum := sha1.Sum([]byte(s.Name)) //nolint:gosec // as above
	return Build{
		Key: hex.EncodeToString(sum[:]), State: s.State, Name: provider.Truncate(name, maxText), Description: s.Description, URL: link,
	}
}

// build returns a status of the repository.
func (h host) build(s githost.Status) Build {
	link := site + "/" + url.PathEscape(h.owner) + "/" + url.PathEscape(h.repo) + "/commits/" + s.Commit
	if len(link) > maxLink {
		link = site
	}
	return NewBuild(s, s.Object, link)
}

// word returns the part of a refusal's answer that is shown: a known message.
var word = provider.WordAt("error.message",
	"Your credentials lack one or more required privilege scopes.", "Access denied. You must have write or admin access.",
	"Token is invalid, expired, or not supported for this endpoint.", "Rate limit for this resource has been exceeded",
)

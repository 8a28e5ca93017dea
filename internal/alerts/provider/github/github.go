package github

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

const apiName = "GitHub's API"

// maxReply is the length of the longest answer, in bytes. The longest is a page of comments of at most 65,536 characters each.
const maxReply = 4 << 20

// Sender sends to one repository.
type Sender struct {
	*provider.Client
	app *app // nil if a token logs in
	// owner and name are the repository's.
	owner, name string
	// sparing sends statuses or comments. It is nil for dispatches.
	sparing provider.Sparing
}

// Keys are the Secret's keys that the package reads besides the common ones.
var Keys = append([]string{keyAppID, keyInstallationID, keyInstallationOwner, keyPrivateKey, keyBaseURL}, provider.TLSKeys[:]...)

// New returns a Sender of a type of this package.
func New(cfg provider.Config) (*Sender, error) {
	repo, err := githost.ParseRepository(cfg.Address)
	if err != nil {
		return nil, err
	}
	owner, name, err := repo.OwnerAndName()
	if err != nil {
		return nil, err
	}
	cfg.Address = apiOf(repo)
	s := &Sender{owner: owner, name: name}
	o := provider.ClientOptions{Word: word, Wait: wait, MaxReply: maxReply, Limit: limit}
	if cfg.Type == "githubdispatch" {
		o.MaxReply = 0 // an answer that ends badly must not dispatch the event twice
	}
	_, token := cfg.TokenOrPassword()
	if token != "" {
		o.Login = provider.TokenOrPasswordIn("Authorization", "Bearer ")
	}
	if s.Client, err = provider.NewClient(cfg, o); err != nil {
		return nil, err
	}
	if token == "" {
		if s.app, err = newApp(cfg); err != nil {
			return nil, err
		}
	}
	switch cfg.Type {
	case "github":
		s.sparing = githost.NewStatuses(cfg, s.Client, s, form)
	case "githubpullrequestcomment":
		s.sparing = githost.NewComments(cfg, s.Client, s.comments(), githost.PullRequestKey)
	}
	return s, nil
}

// form is that of GitHub.
var form = githost.Form{Succeeded: "success", Failed: "failure", Name: 255, Description: 140, Commit: provider.SHA1Digits}

// limit is GitHub's published limit for requests that create content, 80 a minute, for its own hosts.
var limit = provider.LimitOn(provider.Limit{Rate: 80.0 / 60, Burst: 20}, "api.github.com", "ghe.com")

// apiOf returns the address of the API for a repository.
func apiOf(r githost.Repository) string {
	host := strings.TrimSuffix(r.Host, ".")
	switch {
	case host == "github.com" || host == "www.github.com" || host == "ssh.github.com":
		return "https://api.github.com"
	case strings.HasPrefix(host, "api.") || strings.Contains(host, ".api."): // the API itself, as go-github and so Flux takes such a host
		return r.Base()
	case strings.HasSuffix(host, ".ghe.com"):
		return "https://api." + host
	default:
		return r.Base() + "/api/v3"
	}
}

// Send makes one attempt to send a notification.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	if s.sparing == nil {
		return s.dispatch(ctx, n)
	}
	return s.sparing.Send(ctx, n)
}

// Needless reports whether the notification would change nothing at the host.
func (s *Sender) Needless(n provider.Notification) bool {
	return s.sparing != nil && s.sparing.Needless(n)
}

// Close closes idle connections.
func (s *Sender) Close() error {
	if s.app != nil {
		_ = s.app.client.Close() // closes idle connections, which cannot fail
	}
	return s.Client.Close()
}

// url returns the address of a part of the repository in the API.
func (s *Sender) url(parts ...string) *url.URL {
	return s.URL(append([]string{"repos", s.owner, s.name}, parts...)...)
}

// do makes a request and decodes the answer into out, unless out is nil.
func (s *Sender) do(ctx context.Context, r provider.Request, out any) error {
	if s.app == nil {
		return s.request(ctx, r, "", out)
	}
	token, fresh, err := s.app.token(ctx, "")
	if err != nil {
		return err
	}
	err = s.request(ctx, r, token, out)
	if provider.StatusOf(err) != http.StatusUnauthorized || fresh {
		return err
	}
	if token, _, err = s.app.token(ctx, token); err != nil {
		return err
	}
	return s.request(ctx, r, token, out)
}

func (s *Sender) request(ctx context.Context, r provider.Request, token string, out any) error {
	r.Header = headers(token)
	return s.Exchange(ctx, r, out, apiName)
}

// headers returns the headers of every request. A token is that of an App.
func headers(token string) http.Header {
	h := http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}

// comments returns the part of GitHub's API that comments need. To GitHub a pull request is an issue.
func (s *Sender) comments() githost.CommentAPI {
	api := githost.CommentAPI{
		Do: s.do, User: s.URL("user"), Edit: http.MethodPatch, Pages: url.Values{},
		On:  func(number int64) *url.URL { return s.url("issues", strconv.FormatInt(number, 10), "comments") },
		One: func(_, id int64) *url.URL { return s.url("issues", "comments", strconv.FormatInt(id, 10)) },
	}
	if s.app != nil {
		api.Login = s.app.login
	}
	return api
}

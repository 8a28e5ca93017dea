package gitlab

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// maxReply is the length of the longest answer, in bytes. The longest is a page of comments.
const maxReply = 4 << 20

// maxText is the length of the longest name and description of a status, in characters.
const maxText = 255

// project makes the calls of GitLab's API for one project.
type project struct {
	client *provider.Client
	path   string
}

// New returns a Sender of a type of this package for one project.
func New(cfg provider.Config) (provider.Sender, error) {
	p, err := newProject(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Type == "gitlab" {
		return githost.NewStatuses(cfg, p.client, p, githost.Form{Succeeded: "success", Failed: "failed", Name: maxText, Description: maxText}), nil
	}
	return githost.NewComments(cfg, p.client, p.comments(), githost.MergeRequestKey), nil
}

func newProject(cfg provider.Config) (*project, error) {
	repo, err := githost.ParseRepository(cfg.Address)
	if err != nil {
		return nil, err
	}
	if repo.Host == "altssh.gitlab.com" {
		repo.Host = "gitlab.com"
	}
	address, path := apiOf(repo)
	cfg.Address = address
	// gitlab.com's published limits: 60 comments a minute, and 2,000 requests, of which a status needs two
	limit := provider.Limit{Rate: 1, Burst: 10}
	if cfg.Type == "gitlab" {
		limit = provider.Limit{Rate: 10, Burst: 20}
	}
	client, err := provider.NewClient(cfg, provider.ClientOptions{
		Login: provider.TokenOrPasswordIn("Private-Token", ""), MaxReply: maxReply, Word: word, Temporary: temporary,
		Limit: provider.LimitOn(limit, "gitlab.com"),
	})
	return &project{client, path}, err
}

// apiPath is the path of the API on a host, or below the path that GitLab is installed under.
const apiPath = "/api/v4"

// apiOf returns the address of the API and the path of the project. Nothing in the address for cloning tells a path that GitLab is installed
// under from a group; that of the project in the API does.
func apiOf(r githost.Repository) (address, path string) {
	before, path, found := strings.Cut("/"+r.Path, apiPath+"/projects/")
	if !found {
		return r.Base() + apiPath, r.Path
	}
	if before = strings.TrimPrefix(before, "/"); before == "" {
		return r.Base() + apiPath, path
	}
	return githost.Below(r.Base(), strings.Split(before, "/")) + apiPath, path
}

// url returns the address of a part of the project in the API.
func (p *project) url(parts ...string) *url.URL {
	return p.client.URL(append([]string{"projects", p.path}, parts...)...)
}

// do makes a request and decodes the answer into out, unless out is nil.
func (p *project) do(ctx context.Context, r provider.Request, out any) error {
	return p.client.Exchange(ctx, r, out, "GitLab's API")
}

// known are the messages of GitLab's API that may be shown.
var known = []string{
	"401 Unauthorized", "403 Forbidden", "404 Not found", "404 Project Not Found", "404 Commit Not Found", "404 References for commit Not Found",
	"404 Merge Request Not Found", "404 Branch Not Found", resourceLock, "insufficient_scope", "invalid_token",
}

// resourceLock is GitLab's refusal of a request that needs a lock which another one holds. GitLab waits two seconds for the lock of a
// commit's statuses.
const resourceLock = "409 Conflict: Resource lock"

// temporary reports whether a refusal is a resourceLock.
func temporary(status int, answer []byte) bool {
	return status == http.StatusConflict && word(answer) == resourceLock
}

// cannotTransition is the beginning of GitLab's refusal of a status that cannot follow the last one.
const cannotTransition = "Cannot transition status"

// word returns the part of a refusal's answer that is shown.
func word(answer []byte) string {
	var reply struct {
		Message any    `json:"message"`
		Error   string `json:"error"`
	}
	if json.Unmarshal(answer, &reply) != nil {
		return ""
	}
	message, _ := reply.Message.(string)
	if strings.HasPrefix(message, cannotTransition) {
		return cannotTransition
	}
	return provider.KnownWord(known, message, reply.Error)
}

// comments returns the part of GitLab's API that comments need. GitLab calls them notes. Tokens of projects and groups have users of their
// own.
func (p *project) comments() githost.CommentAPI {
	notes := func(number int64, note ...string) *url.URL {
		return p.url(append([]string{"merge_requests", strconv.FormatInt(number, 10), "notes"}, note...)...)
	}
	return githost.CommentAPI{
		Do: p.do, User: p.client.URL("user"), Edit: http.MethodPut, Pages: url.Values{"order_by": {"created_at"}, "sort": {"asc"}},
		On:  func(number int64) *url.URL { return notes(number) },
		One: func(number, id int64) *url.URL { return notes(number, strconv.FormatInt(id, 10)) },
	}
}

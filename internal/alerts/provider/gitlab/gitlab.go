package gitlab

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// maxReply is the length of the longest answer, in bytes. The longest is a page of comments.
const maxReply = 4 << 20

// maxText is the length of the longest name and description of a status, in characters.
const maxText = 255

// Sender sends to one project.
type Sender struct {
	provider.Sparing
	client  *provider.Client
	project string
	limit   provider.Limit
}

// New returns a Sender of a type of this package.
func New(cfg provider.Config) (*Sender, error) {
	repo, err := githost.ParseRepository(cfg.Address)
	if err != nil {
		return nil, err
	}
	key, token := cfg.TokenOrPassword()
	header, err := provider.Credential("Private-Token", "", key, token)
	if err != nil {
		return nil, err
	}
	if repo.Host == "altssh.gitlab.com" {
		repo.Host = "gitlab.com"
	}
	cfg = cfg.WithSecretTLS()
	cfg.Address = repo.Base() + "/api/v4"
	s := &Sender{project: repo.Path}
	o := provider.ClientOptions{Header: header, MaxReply: maxReply, Word: word, Temporary: temporary}
	s.client, err = provider.NewClient(cfg, o)
	if err != nil {
		return nil, err
	}
	if cfg.Type == "gitlab" {
		s.limit = provider.Limit{Rate: 10, Burst: 20}
		s.Sparing = githost.NewStatuses(cfg, s.client, s, githost.Limits{Name: maxText, Description: maxText}, false)
	} else {
		s.limit = provider.Limit{Rate: 1, Burst: 10}
		s.Sparing = githost.NewComments(cfg, s.client, s.comments(), githost.MergeRequestKey)
	}
	return s, nil
}

// Limit returns gitlab.com's published limits: 60 comments a minute, and 2,000 requests, of which a status needs two.
func (s *Sender) Limit() provider.Limit {
	return s.client.LimitOn(s.limit, "gitlab.com")
}

// url returns the address of a part of the project in the API.
func (s *Sender) url(parts ...string) *url.URL {
	return s.client.URL(append([]string{"projects", s.project}, parts...)...)
}

// do makes a request and decodes the answer into out, unless out is nil.
func (s *Sender) do(ctx context.Context, r provider.Request, out any) error {
	return s.client.Exchange(ctx, r, out, "GitLab's API")
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
	return cmp.Or(provider.KnownWord(message, known), provider.KnownWord(reply.Error, known))
}

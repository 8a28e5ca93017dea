package gitea

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

const (
	typeStatus  = "gitea"
	typeComment = "giteapullrequestcomment"
)

// The lengths of the longest answers, in bytes: a page of statuses, and all comments of a pull request.
const (
	maxStatuses = 1 << 20
	maxComments = 4 << 20
)

// New returns a Sender of either type for one repository. It needs the repository's address and a token.
func New(cfg provider.Config) (provider.Sender, error) {
	r, addressErr := locate(&cfg)
	o := provider.ClientOptions{Login: provider.TokenOrPasswordIn("Authorization", "token "), MaxReply: maxStatuses, Word: word}
	if cfg.Type == typeComment {
		o.MaxReply, cfg.Values = maxComments, nil // as in Flux, comments take no TLS material of the Secret
	}
	client, clientErr := provider.NewClient(cfg, o)
	if err := errors.Join(addressErr, clientErr); err != nil {
		return nil, err
	}
	r.client = client
	if cfg.Type == typeComment {
		return githost.NewComments(cfg, client, r.comments(), githost.PullRequestKey), nil
	}
	return githost.NewStatuses(cfg, client, r, githost.Form{Succeeded: "success", Failed: "failure", Pending: "pending"}), nil
}

// repository makes the calls of Gitea's API for one repository.
type repository struct {
	client      *provider.Client
	owner, name string
}

// locate returns the repository of cfg.Address and replaces that address by the server's.
func locate(cfg *provider.Config) (repository, error) {
	at, err := githost.ParseRepository(cfg.Address)
	if err != nil {
		return repository{}, err
	}
	path := at.Segments()
	if len(path) < 2 {
		return repository{}, errors.New("address is no repository; it has the form gitea.example.com/owner/repository, with https before it")
	}
	own := len(path) - 2 // the parts before it are the path of the server
	cfg.Address = githost.Below(at.Base(), path[:own])
	return repository{owner: path[own], name: path[own+1]}, nil
}

// call makes a request of the API and decodes its answer into reply, unless reply is nil or the answer is empty.
func (r repository) call(ctx context.Context, request provider.Request, reply any) error {
	answer, err := r.client.Do(ctx, request)
	if err != nil || reply == nil || len(answer) == 0 {
		return err
	}
	return provider.DecodeJSON(answer, reply, "Gitea's API")
}

// url returns the address of a part of the repository in the API.
func (r repository) url(parts ...string) *url.URL {
	return r.client.URL(append([]string{"api", "v1", "repos", r.owner, r.name}, parts...)...)
}

// words are the texts that replace the messages of refusals with these beginnings.
var words = []struct{ message, word string }{
	{"token does not have at least one of required scope", "the token lacks a scope"},
	{"user should have a permission to write", "the token's user may not write to the repository"},
	{"user should have specific permission", "the token's user lacks a permission"},
	{"invalid username, password or token", "the token is not valid"},
}

// word returns the part of a refusal's answer that is shown.
func word(answer []byte) string {
	var reply struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answer, &reply) != nil {
		return ""
	}
	for _, w := range words {
		if strings.HasPrefix(reply.Message, w.message) {
			return w.word
		}
	}
	return ""
}

// comments returns the part of Gitea's API that comments need. To Gitea a pull request is an issue, whose list of comments has no pages.
func (r repository) comments() githost.CommentAPI {
	return githost.CommentAPI{
		Do: r.call, User: r.client.URL("api", "v1", "user"), Edit: http.MethodPatch,
		On:  func(number int64) *url.URL { return r.url("issues", strconv.FormatInt(number, 10), "comments") },
		One: func(_, id int64) *url.URL { return r.url("issues", "comments", strconv.FormatInt(id, 10)) },
	}
}

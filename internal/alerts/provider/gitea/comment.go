package gitea

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// comments is the part of the API that comments need. To Gitea a pull request is an issue with commits.
type comments struct{ repository }

// account is a user in Gitea's answers.
type account struct {
	Login string `json:"login"`
}

// comment is a comment as Gitea lists it. A deleted user has no login, or a placeholder.
type comment struct {
	ID      int64     `json:"id"`
	User    account   `json:"user"`
	Body    string    `json:"body"`
	Updated time.Time `json:"updated_at"`
}

// Login returns the login of the token's owner.
func (r comments) Login(ctx context.Context) (string, error) {
	var a account
	err := r.call(ctx, provider.Request{Method: http.MethodGet, URL: r.client.URL("api", "v1", "user")}, &a)
	return a.Login, err
}

// Comments returns all comments at once: Gitea's list has no pages.
func (r comments) Comments(ctx context.Context, number int64, _ int) ([]githost.Comment, bool, error) {
	var listed provider.List[comment]
	if err := r.call(ctx, provider.Request{Method: http.MethodGet, URL: r.of(number)}, &listed); err != nil {
		return nil, false, err
	}
	all := make([]githost.Comment, len(listed))
	for i, c := range listed {
		all[i] = githost.Comment{ID: c.ID, Author: c.User.Login, Body: c.Body, Updated: c.Updated}
	}
	return all, false, nil
}

type text struct {
	Body string `json:"body"`
}

// CreateComment writes a comment.
func (r comments) CreateComment(ctx context.Context, number int64, body string) error {
	return r.call(ctx, provider.Request{URL: r.of(number), JSON: text{body}}, nil)
}

// EditComment replaces the text of a comment.
func (r comments) EditComment(ctx context.Context, _, id int64, body string) error {
	u := r.url("issues", "comments", strconv.FormatInt(id, 10))
	return r.call(ctx, provider.Request{Method: http.MethodPatch, URL: u, JSON: text{body}}, nil)
}

// of returns the address of a pull request's comments.
func (r comments) of(number int64) *url.URL {
	return r.url("issues", strconv.FormatInt(number, 10), "comments")
}

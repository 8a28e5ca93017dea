package gitea

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// comments is the part of the API that comments need. To Gitea a pull request is an issue with commits.
type comments struct{ repository }

// Login returns the login of the token's owner.
func (r comments) Login(ctx context.Context) (string, error) {
	var a githost.Account
	err := r.call(ctx, provider.Request{Method: http.MethodGet, URL: r.client.URL("api", "v1", "user")}, &a)
	return a.Name(), err
}

// Comments returns all comments at once: Gitea's list has no pages.
func (r comments) Comments(ctx context.Context, number int64, _ int) ([]githost.Comment, bool, error) {
	var all provider.List[githost.Comment]
	err := r.call(ctx, provider.Request{Method: http.MethodGet, URL: r.of(number)}, &all)
	return all, false, err
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

package github

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// Login returns the login of the token's user, or of the App's bot.
func (s *Sender) Login(ctx context.Context) (string, error) {
	if s.app != nil {
		return s.app.login(ctx)
	}
	var user githost.Account
	err := s.do(ctx, provider.Request{Method: http.MethodGet, URL: s.client.URL("user")}, &user)
	return user.Name(), err
}

// commentsOn returns the address of the comments on a pull request.
func (s *Sender) commentsOn(number int64) *url.URL {
	return s.url("issues", strconv.FormatInt(number, 10), "comments")
}

// Comments returns a page of the comments on a pull request, which to GitHub is an issue. GitHub lists them in the order of their
// creation.
func (s *Sender) Comments(ctx context.Context, number int64, page int) ([]githost.Comment, bool, error) {
	var found provider.List[githost.Comment]
	u := s.commentsOn(number)
	u.RawQuery = url.Values{"per_page": {strconv.Itoa(githost.PageSize)}, "page": {strconv.Itoa(page)}}.Encode()
	if err := s.do(ctx, provider.Request{Method: http.MethodGet, URL: u}, &found); err != nil {
		return nil, false, err
	}
	return found, len(found) >= githost.PageSize, nil
}

type text struct {
	Body string `json:"body"`
}

// CreateComment writes a new comment on a pull request.
func (s *Sender) CreateComment(ctx context.Context, number int64, body string) error {
	return s.do(ctx, provider.Request{URL: s.commentsOn(number), JSON: text{body}}, nil)
}

// EditComment replaces the text of a comment.
func (s *Sender) EditComment(ctx context.Context, _, id int64, body string) error {
	u := s.url("issues", "comments", strconv.FormatInt(id, 10))
	return s.do(ctx, provider.Request{Method: http.MethodPatch, URL: u, JSON: text{body}}, nil)
}

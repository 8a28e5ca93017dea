package gitlab

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// Login returns the name of the token's user. Tokens of projects and groups have users of their own.
func (s *Sender) Login(ctx context.Context) (string, error) {
	var user githost.Account
	err := s.do(ctx, provider.Request{Method: http.MethodGet, URL: s.client.URL("user")}, &user)
	return user.Name(), err
}

// notes returns the address of the comments on a merge request, which GitLab calls notes, or of one of them.
func (s *Sender) notes(number int64, note ...string) *url.URL {
	return s.url(append([]string{"merge_requests", strconv.FormatInt(number, 10), "notes"}, note...)...)
}

// Comments returns a page of the comments on a merge request.
func (s *Sender) Comments(ctx context.Context, number int64, page int) ([]githost.Comment, bool, error) {
	var found provider.List[githost.Comment]
	u := s.notes(number)
	u.RawQuery = url.Values{
		"order_by": {"created_at"}, "sort": {"asc"}, "per_page": {strconv.Itoa(githost.PageSize)}, "page": {strconv.Itoa(page)},
	}.Encode()
	if err := s.do(ctx, provider.Request{Method: http.MethodGet, URL: u}, &found); err != nil {
		return nil, false, err
	}
	return found, len(found) >= githost.PageSize, nil
}

type text struct {
	Body string `json:"body"`
}

// CreateComment writes a new comment on a merge request.
func (s *Sender) CreateComment(ctx context.Context, number int64, body string) error {
	return s.do(ctx, provider.Request{URL: s.notes(number), JSON: text{body}}, nil)
}

// EditComment replaces the text of a comment.
func (s *Sender) EditComment(ctx context.Context, number, id int64, body string) error {
	u := s.notes(number, strconv.FormatInt(id, 10))
	return s.do(ctx, provider.Request{Method: http.MethodPut, URL: u, JSON: text{body}}, nil)
}

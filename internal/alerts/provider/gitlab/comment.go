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
	var user struct {
		Username string `json:"username"`
	}
	err := s.do(ctx, call{method: http.MethodGet, path: []string{"user"}}, &user)
	return user.Username, err
}

// notes returns the path of the comments on a merge request, which GitLab calls notes.
func (s *Sender) notes(number int64, parts ...string) []string {
	return append(s.in("merge_requests", strconv.FormatInt(number, 10), "notes"), parts...)
}

// Comments returns a page of the comments on a merge request.
func (s *Sender) Comments(ctx context.Context, number int64, page int) ([]githost.Comment, bool, error) {
	var found provider.List[struct {
		ID     int64  `json:"id"`
		Body   string `json:"body"`
		Author struct {
			Username string `json:"username"`
		} `json:"author"`
	}]
	err := s.do(ctx, call{method: http.MethodGet, path: s.notes(number), query: url.Values{
		"order_by": {"created_at"}, "sort": {"asc"}, "per_page": {strconv.Itoa(githost.PageSize)}, "page": {strconv.Itoa(page)},
	}}, &found)
	if err != nil {
		return nil, false, err
	}
	comments := make([]githost.Comment, len(found))
	for i, n := range found {
		comments[i] = githost.Comment{ID: n.ID, Author: n.Author.Username, Body: n.Body}
	}
	return comments, len(found) >= githost.PageSize, nil
}

type text struct {
	Body string `json:"body"`
}

// CreateComment writes a new comment on a merge request.
func (s *Sender) CreateComment(ctx context.Context, number int64, body string) error {
	return s.do(ctx, call{method: http.MethodPost, path: s.notes(number), body: text{body}}, nil)
}

// EditComment replaces the text of a comment.
func (s *Sender) EditComment(ctx context.Context, number, id int64, body string) error {
	return s.do(ctx, call{method: http.MethodPut, path: s.notes(number, strconv.FormatInt(id, 10)), body: text{body}}, nil)
}

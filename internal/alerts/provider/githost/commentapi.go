package githost

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"notifier/internal/alerts/provider"
)

// CommentAPI is the part of a host's API that comments need.
type CommentAPI struct {
	// Do makes a request and decodes the answer into out, unless out is nil.
	Do func(ctx context.Context, r provider.Request, out any) error
	// User is the address of the own account. Login, unless it is nil, is called in its place until it succeeds once. It returns the login
	// in the host's form for the author of a comment.
	User  *url.URL
	Login func(ctx context.Context) (string, error)
	// On returns the address of the comments on a change request, which the host lists with the oldest first, and One that of one of them.
	On  func(number int64) *url.URL
	One func(number, id int64) *url.URL
	// Edit is the HTTP method that replaces the text of a comment.
	Edit string
	// Pages is the query for a page, without its number and size. It is nil for a host that lists all comments at once.
	Pages url.Values
}

// pageSizes are the numbers of comments on a page, each a multiple of the next. A smaller one is for comments that make a longer answer than is
// read.
var pageSizes = []int{50, 5, 1}

func (a *CommentAPI) login(ctx context.Context) (string, error) {
	if a.Login != nil {
		return a.Login(ctx)
	}
	var own Account
	err := a.Do(ctx, provider.Request{Method: http.MethodGet, URL: a.User}, &own)
	return own.Name(), err
}

// listed is a page of comments, with its length in bytes.
type listed struct {
	comments provider.List[Comment]
	size     int
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *listed) UnmarshalJSON(raw []byte) error {
	l.size = len(raw)
	return l.comments.UnmarshalJSON(raw)
}

// page returns a page of the comments on a change request: at most size of them, the first of which has the index from, a multiple of size.
// More means that there may be a next page.
func (a *CommentAPI) page(ctx context.Context, number int64, from, size int) (found listed, more bool, err error) {
	u := a.On(number)
	if a.Pages != nil {
		query := maps.Clone(a.Pages)
		query.Set("per_page", strconv.Itoa(size))
		query.Set("page", strconv.Itoa(from/size+1))
		u.RawQuery = query.Encode()
	}
	err = a.Do(ctx, provider.Request{Method: http.MethodGet, URL: u}, &found)
	return found, a.Pages != nil && len(found.comments) >= size, err
}

// write replaces the text of the comment with an ID, or writes a new comment if the ID is 0.
func (a *CommentAPI) write(ctx context.Context, number, id int64, body string) error {
	r := provider.Request{URL: a.On(number), JSON: map[string]string{"body": body}}
	if id != 0 {
		r.Method, r.URL = a.Edit, a.One(number, id)
	}
	return a.Do(ctx, r, nil)
}

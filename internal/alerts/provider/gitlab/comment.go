package gitlab

import (
	"net/http"
	"net/url"
	"strconv"

	"notifier/internal/alerts/provider/githost"
)

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

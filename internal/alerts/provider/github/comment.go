package github

import (
	"net/http"
	"net/url"
	"strconv"

	"notifier/internal/alerts/provider/githost"
)

// comments returns the part of GitHub's API that comments need. To GitHub a pull request is an issue.
func (s *Sender) comments() githost.CommentAPI {
	api := githost.CommentAPI{
		Do: s.do, User: s.URL("user"), Edit: http.MethodPatch, Pages: url.Values{},
		On:  func(number int64) *url.URL { return s.url("issues", strconv.FormatInt(number, 10), "comments") },
		One: func(_, id int64) *url.URL { return s.url("issues", "comments", strconv.FormatInt(id, 10)) },
	}
	if s.app != nil {
		api.Login = s.app.login
	}
	return api
}

package gitea

import (
	"net/http"
	"net/url"
	"strconv"

	"notifier/internal/alerts/provider/githost"
)

// comments returns the part of Gitea's API that comments need. To Gitea a pull request is an issue, whose list of comments has no pages.
func (r repository) comments() githost.CommentAPI {
	return githost.CommentAPI{
		Do: r.call, User: r.client.URL("api", "v1", "user"), Edit: http.MethodPatch,
		On:  func(number int64) *url.URL { return r.url("issues", strconv.FormatInt(number, 10), "comments") },
		One: func(_, id int64) *url.URL { return r.url("issues", "comments", strconv.FormatInt(id, 10)) },
	}
}

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

const (
	pageLength = 50 // statuses: the most that Gitea lists at once by default
	maxPages   = 10
)

// status is a commit's status as Gitea lists it. A posted status has its state under "state".
type status struct {
	Context     string `json:"context"`
	State       string `json:"status"`
	Description string `json:"description"`
	Created     string `json:"created_at"`
}

// LastStatus looks for the context among the last statuses of the commit's contexts.
func (r repository) LastStatus(ctx context.Context, s githost.Status) (githost.Last, error) {
	u := r.url("commits", s.Commit, "status")
	for page := 1; page <= maxPages; page++ {
		u.RawQuery = url.Values{"page": {strconv.Itoa(page)}, "limit": {strconv.Itoa(pageLength)}}.Encode()
		var reply struct {
			Statuses provider.List[status] `json:"statuses"`
		}
		if err := r.call(ctx, provider.Request{Method: http.MethodGet, URL: u}, &reply); err != nil {
			return githost.Last{}, err
		}
		for _, old := range reply.Statuses {
			if old.Context == s.Name {
				set, _ := time.Parse(time.RFC3339, old.Created)
				return githost.Last{State: old.State, Description: old.Description, Set: set}, nil
			}
		}
		if len(reply.Statuses) < pageLength {
			break
		}
	}
	return githost.Last{}, nil
}

// SetStatus posts a status.
func (r repository) SetStatus(ctx context.Context, s githost.Status) error {
	return r.call(ctx, provider.Request{
		URL: r.url("statuses", s.Commit), JSON: map[string]string{"context": s.Name, "state": s.State, "description": s.Description},
	}, nil)
}

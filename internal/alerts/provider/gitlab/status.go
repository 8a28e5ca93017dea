package gitlab

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// LastStatus requests the statuses of the name. GitLab lists the latest of each pipeline; versions before 17.8 list the oldest first.
func (p *project) LastStatus(ctx context.Context, want githost.Status) (githost.Last, error) {
	var all provider.List[struct {
		ID          int64     `json:"id"`
		Name        string    `json:"name"`
		Status      string    `json:"status"`
		Description string    `json:"description"`
		CreatedAt   time.Time `json:"created_at"`
	}]
	u := p.url("repository", "commits", want.Commit, "statuses")
	u.RawQuery = url.Values{"name": {want.Name}, "order_by": {"id"}, "sort": {"desc"}, "per_page": {"100"}}.Encode()
	if err := p.do(ctx, provider.Request{Method: http.MethodGet, URL: u}, &all); err != nil {
		return githost.Last{}, err
	}
	var last githost.Last
	newest := int64(-1)
	for _, found := range all {
		if found.Name != want.Name || found.ID <= newest {
			continue
		}
		newest = found.ID
		last = githost.Last{State: found.Status, Description: found.Description, Set: found.CreatedAt}
	}
	return last, nil
}

// SetStatus sets a status of the commit.
func (p *project) SetStatus(ctx context.Context, want githost.Status) error {
	return p.do(ctx, provider.Request{URL: p.url("statuses", want.Commit), JSON: struct {
		State       string `json:"state"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}{want.State, want.Name, want.Description}}, nil)
}

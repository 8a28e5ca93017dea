package github

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

// status is a status of GitHub's API.
type status struct {
	State       string    `json:"state"`
	Context     string    `json:"context"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
}

// LastStatus searches the last hundred statuses of the commit, the newest first.
func (s *Sender) LastStatus(ctx context.Context, want githost.Status) (githost.Last, error) {
	var all provider.List[status]
	u := s.url("commits", want.Commit, "statuses")
	u.RawQuery = url.Values{"per_page": {"100"}}.Encode()
	if err := s.do(ctx, provider.Request{Method: http.MethodGet, URL: u}, &all); err != nil {
		return githost.Last{}, err
	}
	for _, found := range all {
		if found.Context == want.Name {
			return githost.Last{State: found.State, Description: found.Description, Set: found.CreatedAt}, nil
		}
	}
	return githost.Last{}, nil
}

// SetStatus sets a status of the commit.
func (s *Sender) SetStatus(ctx context.Context, want githost.Status) error {
	body := status{State: want.State, Context: want.Name, Description: want.Description}
	return s.do(ctx, provider.Request{URL: s.url("statuses", want.Commit), JSON: body}, nil)
}

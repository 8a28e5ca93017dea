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

// statusOf returns a status as it is set.
func statusOf(s githost.Status) status {
	state := "success"
	if s.State == githost.Failed {
		state = "failure"
	}
	return status{State: state, Context: s.Name, Description: s.Description}
}

// LastStatus searches the last hundred statuses of the commit, the newest first.
func (s *Sender) LastStatus(ctx context.Context, want githost.Status) (githost.Last, error) {
	var all provider.List[status]
	u := s.url("commits", want.Commit, "statuses")
	u.RawQuery = url.Values{"per_page": {"100"}}.Encode()
	if err := s.do(ctx, provider.Request{Method: http.MethodGet, URL: u}, &all); err != nil {
		return githost.Last{}, err
	}
	own := statusOf(want)
	for _, found := range all {
		if found.Context != own.Context {
			continue
		}
		return githost.Last{Same: found.State == own.State && found.Description == own.Description, Set: found.CreatedAt}, nil
	}
	return githost.Last{}, nil
}

// SetStatus sets a status of the commit.
func (s *Sender) SetStatus(ctx context.Context, want githost.Status) error {
	return s.do(ctx, provider.Request{URL: s.url("statuses", want.Commit), JSON: statusOf(want)}, nil)
}

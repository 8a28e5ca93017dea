package github

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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

const (
	pageLength = 100 // statuses: the most that GitHub lists at once
	maxPages   = 10  // of the contexts of a commit
)

// LastStatus searches the last hundred statuses of the commit, the newest first. If they fill their page it also searches the last statuses
// of the commit's contexts: one commit may be that of hundreds of objects.
func (s *Sender) LastStatus(ctx context.Context, want githost.Status) (githost.Last, error) {
	var all provider.List[status]
	if err := s.list(ctx, "statuses", want, 0, &all); err != nil {
		return githost.Last{}, err
	}
	last, found := lastOf(all, want.Name)
	for page := 1; !found && len(all) == pageLength && page <= maxPages; page++ {
		var contexts struct {
			Statuses provider.List[status] `json:"statuses"`
		}
		if err := s.list(ctx, "status", want, page, &contexts); err != nil {
			return githost.Last{}, err
		}
		all = contexts.Statuses
		last, found = lastOf(all, want.Name)
	}
	return last, nil
}

// list requests a page of a list of the commit's statuses, the first page if it is 0.
func (s *Sender) list(ctx context.Context, list string, of githost.Status, page int, out any) error {
	u := s.url("commits", of.Commit, list)
	query := url.Values{"per_page": {strconv.Itoa(pageLength)}}
	if page > 0 {
		query.Set("page", strconv.Itoa(page))
	}
	u.RawQuery = query.Encode()
	return s.do(ctx, provider.Request{Method: http.MethodGet, URL: u}, out)
}

// lastOf returns the first status with a name in a list, and whether there is one.
func lastOf(all []status, name string) (last githost.Last, found bool) {
	i := slices.IndexFunc(all, func(s status) bool { return s.Context == name })
	if i < 0 {
		return githost.Last{}, false
	}
	return githost.Last{State: all[i].State, Description: all[i].Description, Set: all[i].CreatedAt}, true
}

// SetStatus sets a status of the commit.
func (s *Sender) SetStatus(ctx context.Context, want githost.Status) error {
	body := status{State: want.State, Context: want.Name, Description: want.Description}
	return s.do(ctx, provider.Request{URL: s.url("statuses", want.Commit), JSON: body}, nil)
}

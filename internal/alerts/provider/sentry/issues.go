package sentry

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	// objectTag is the tag by which the issues of an object are found.
	objectTag = "flux_object"
	maxReply  = 1 << 20 // bytes of an answer, at most a page of projects

	// searchable bounds the time until Sentry's search finds an accepted error event, and searchAgain is the time between two
	// searches.
	searchable  = time.Minute
	searchAgain = 15 * time.Second
	// maxFailures bounds the number of objects whose last failure a Sender remembers.
	maxFailures = 512
)

// isSlug matches the short names of organizations.
var isSlug = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// issues resolves the issues of one project by the web API.
type issues struct {
	client *provider.Client
	// root is the API's address, and header the login there.
	root     *url.URL
	header   http.Header
	project  string
	provider string // the Provider's UID
	// numbered is the number of the organization, if the DSN has it.
	numbered   string
	recoveries provider.Recoveries
	// began is since when failures has the failures. Those from before went through another Sender of the Provider.
	began time.Time

	mu sync.Mutex
	// organization is the organization's number or short name, empty until it is known.
	organization string
	// failures has the time at which the last failure of an object was sent, by the value of its tag.
	failures *provider.Memory[string, time.Time]
}

func newIssues(cfg provider.Config, d dsn, client *provider.Client) (*issues, error) {
	header, err := cfg.Bearer()
	if err != nil {
		return nil, err
	}
	if strings.Trim(d.project, "0123456789") != "" {
		return nil, errDSN
	}
	root, number := d.api()
	return &issues{
		client: client, root: root, header: header, project: d.project, provider: cfg.UID,
		numbered: number, organization: number, began: time.Now(), failures: provider.NewMemory[string, time.Time](cfg.Namespace, maxFailures),
	}, nil
}

// object returns the value of an object's tag.
func (i *issues) object(o event.ObjectReference) string { return provider.ObjectKey(i.provider, o) }

// sent remembers a failure that Sentry accepted.
func (i *issues) sent(n provider.Notification, now time.Time) {
	if provider.Failed(n) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.failures.Add(i.object(n.Event.InvolvedObject), now)
	}
}

// errSearch means that a search may not find the issue of a failure yet.
var errSearch = errors.New("no issue found")

// before resolves the issues of an object that recovered, before the recovery is submitted.
func (i *issues) before(ctx context.Context, n provider.Notification, now time.Time) error {
	if !provider.Recovered(n) {
		return nil
	}
	object := i.object(n.Event.InvolvedObject)
	found, err := i.resolve(ctx, object)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	at, failed := i.failures.Get(object)
	if failed && !found && now.Sub(at) < searchable {
		e := event.NewError(event.Retry, provider.LabelRejected, "the failure's issue cannot be found yet", errSearch)
		e.RetryAfter = searchAgain
		return e
	}
	if !found && now.Sub(i.began) < searchable {
		i.recoveries.Doubt(n)
	}
	i.failures.Remove(object)
	return nil
}

// resolve resolves the unresolved issues that have the tag of an object, and reports whether there were any.
func (i *issues) resolve(ctx context.Context, object string) (found bool, err error) {
	organization, err := i.organizationOf(ctx)
	if err != nil {
		return false, err
	}
	query := url.Values{"project": {i.project}, "query": {"is:unresolved " + objectTag + ":" + object}}
	answer, err := i.client.Do(ctx, provider.Request{
		Method: http.MethodPut, URL: i.url("organizations/"+organization+"/issues/", query), Header: i.header,
		JSON: map[string]string{"status": "resolved"},
	})
	if provider.StatusOf(err) == http.StatusNotFound {
		i.organizationIs(i.numbered) // its name has changed since
	}
	return len(bytes.TrimSpace(answer)) > 0, err // a 204 if none was found
}

// organizationOf returns the organization of the project. If it is unknown the API is queried.
func (i *issues) organizationOf(ctx context.Context) (string, error) {
	i.mu.Lock()
	known := i.organization
	i.mu.Unlock()
	if known != "" {
		return known, nil
	}
	var projects provider.List[struct {
		ID           string `json:"id"`
		Organization struct {
			Slug string `json:"slug"`
		} `json:"organization"`
	}]
	r := provider.Request{Method: http.MethodGet, URL: i.url("projects/", url.Values{"query": {"id:" + i.project}}), Header: i.header}
	if err := i.client.Exchange(ctx, r, &projects, "Sentry's API"); err != nil {
		return "", err
	}
	for _, p := range projects {
		if slug := p.Organization.Slug; p.ID == i.project && isSlug.MatchString(slug) {
			i.organizationIs(slug)
			return slug, nil
		}
	}
	return "", event.NewError(event.Permanent, provider.LabelRejected, "the token does not open the DSN's project", nil)
}

func (i *issues) organizationIs(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.organization = name
}

// url returns the address of a path of the API. The path ends in a slash, without which Sentry redirects.
func (i *issues) url(path string, query url.Values) *url.URL {
	u := i.root.JoinPath(path)
	u.RawQuery = query.Encode()
	return u
}

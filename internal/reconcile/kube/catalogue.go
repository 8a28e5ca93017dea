package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/fair"
)

// Discovery asks the API server for the resources that it serves.
type Discovery interface {
	// All returns the resources of all versions of all groups, each group's in the server's order of preference. Its requests end with
	// ctx.
	All(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error)
}

// The answers about a kind that is not found.
var (
	// ErrNotServed is the answer that the cluster has no such kind.
	ErrNotServed = errors.New("the cluster serves no namespaced kind of that name and apiVersion: correct them, or have its definition " +
		"installed")
	// ErrNotAnswered is the lack of an answer; a later question may be answered.
	ErrNotAnswered = errors.New("the API server has not said yet what it serves")
)

// ambiguousKindError is the answer that a kind without an API version could be of several groups.
type ambiguousKindError struct {
	Kind   string
	Groups []string
}

func (e *ambiguousKindError) Error() string {
	return fmt.Sprintf("kind %s is served by the API groups %s: set apiVersion", e.Kind, strings.Join(e.Groups, ", "))
}

// IsUnresolvable reports whether an error is the cluster's answer about a kind, rather than the lack of an answer.
func IsUnresolvable(err error) bool {
	_, ambiguous := errors.AsType[*ambiguousKindError](err)
	return ambiguous || errors.Is(err, ErrNotServed)
}

const (
	// catalogueRefresh is the least pause between questions because a kind was not found, or was found in more than one group.
	catalogueRefresh = 10 * time.Second
	// catalogueRetry is the pause after a request that failed.
	catalogueRetry = 2 * time.Second
	// catalogueAge is the age at which an answer is refreshed while it stays in use.
	catalogueAge = 10 * time.Minute
	// catalogueTimeout ends a request that the server does not answer.
	catalogueTimeout = 5 * time.Second
	// cataloguePatience is how long after its beginning a request is waited for. Later callers do not wait at all, so that an API server
	// that hangs costs each worker this long once in catalogueTimeout.
	cataloguePatience = 250 * time.Millisecond
	// missBurst and missPause bound how often a namespace may cause another question for kinds that are not found, or that a write did not
	// find: missBurst at once, and one per missPause. Tenants invent kinds. maxMissing bounds the remembered namespaces.
	missBurst  = 6
	missPause  = time.Minute
	maxMissing = 1024
	// maxKinds bounds the names of kinds; further kinds of the server are not found.
	maxKinds = 1 << 14
)

// Catalogue knows the kinds that the cluster serves. One request reads all of them; it is made when a kind is unknown or the answer too
// old, and otherwise memory answers. Run makes the requests, one at a time.
type Catalogue struct {
	discovery Discovery
	misses    *fair.Limiters[string]
	// wanted signals that a request must be made.
	wanted chan struct{}

	mu sync.Mutex
	answer
	// err is the error of the last request. asked and answered are when it began and ended.
	err             error
	asked, answered time.Time
	// doubted reports that the answer may be outdated, and again that this holds for the answer to the request under way, too.
	doubted, again bool
	// queued reports that a request is wanted and has not begun. began is when the one under way began, zero for none.
	queued bool
	began  time.Time
	// done closes when the request under way, or the next one, has ended.
	done chan struct{}
}

// answer has the resources of the API server's last answer.
type answer struct {
	// kinds are the namespaced resources by their kinds, each group's in its order of preference.
	kinds map[string][]servedResource
	// stale are the versions whose resources the API server could not find out.
	stale map[schema.GroupVersion]bool
}

// servedResource is a resource by which the objects of a kind are reached.
type servedResource struct {
	schema.GroupVersionResource
	patchable bool
}

// NewCatalogue returns an empty catalogue. Run fills it.
func NewCatalogue(d Discovery) *Catalogue {
	return &Catalogue{
		discovery: d, misses: fair.NewLimiters[string](rate.Every(missPause), missBurst, maxMissing),
		wanted: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Run makes the wanted requests to the API server, until ctx ends.
func (c *Catalogue) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wanted:
			c.ask(ctx)
		}
	}
}

// Resource returns the resource of a kind that an object of a namespace names. With an API version it is the resource of that version.
// Otherwise it is in the only group that has the kind, in the first of its versions that can be patched. IsUnresolvable reports
// whether an error is the cluster's answer. It waits no longer than cataloguePatience.
func (c *Catalogue) Resource(ctx context.Context, namespace, apiVersion, kind string) (schema.GroupVersionResource, error) {
	none, version := schema.GroupVersionResource{}, schema.GroupVersion{}
	if apiVersion != "" {
		var ok bool
		if version, ok = ParseAPIVersion(apiVersion); !ok {
			return none, ErrNotServed
		}
	}
	found, err := c.find(ctx, namespace, version, kind)
	switch {
	case err != nil:
		return none, fmt.Errorf("look up %s: %w", strings.TrimSpace(apiVersion+" "+kind), err)
	case len(found) == 0:
		return none, ErrNotServed
	case len(found) > 1:
		return none, &ambiguousKindError{kind, groupNames(found)}
	}
	return found[0], nil
}

// Preferred returns the resource of a kind in the first version of its group that has it, and false when none has it. The answer is
// from a question asked no earlier than since.
func (c *Catalogue) Preferred(
	ctx context.Context, since time.Time, kind schema.GroupKind, resource string,
) (found schema.GroupVersionResource, served bool, err error) {
	none := schema.GroupVersionResource{}
	c.mu.Lock()
	for c.asked.Before(since) || c.answered.IsZero() {
		c.queue()
		done := c.done
		c.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return none, false, context.Cause(ctx)
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.err != nil {
		return none, false, c.err
	}
	for _, r := range c.kinds[kind.Kind] {
		if r.Group == kind.Group && r.Resource == resource {
			return r.GroupVersionResource, true, nil
		}
	}
	for version := range c.stale {
		if version.Group == kind.Group {
			return none, false, ErrNotAnswered
		}
	}
	return none, false, nil
}

// Doubt causes a new question at the next look-up of a kind, because a write for a namespace got a 404.
func (c *Catalogue) Doubt(namespace string) {
	if c.misses.Allow(namespace) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.doubted, c.again = true, true
	}
}

// find returns the resources of a kind, none when the server reports none. A kind with one known resource is returned without the
// answer to a request under way, because one tenant's doubt must not fail the others' writes.
func (c *Catalogue) find(
	ctx context.Context, namespace string, version schema.GroupVersion, kind string,
) ([]schema.GroupVersionResource, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.lookup(version, kind)
	known := len(found) == 1
	good := known && !c.doubted
	if !c.due(good) {
		return found, c.missing(found, version)
	}
	if c.began.IsZero() && !c.queued {
		// Missing answers, and answers that may have changed by now, do not count against the namespace.
		if answered := !c.answered.IsZero() && c.err == nil; answered && !known && !c.misses.Allow(namespace) {
			return found, c.missing(found, version)
		}
		c.queue()
	}
	if good { // only old: a later lookup has the new answer
		return found, nil
	}
	if !c.await(ctx) && len(c.lookup(version, kind)) != 1 {
		return nil, errors.Join(ctx.Err(), ErrNotAnswered)
	}
	found = c.lookup(version, kind)
	return found, c.missing(found, version)
}

// await waits for the request under way, and reports whether it ended in time. The caller holds the lock; await releases it meanwhile.
func (c *Catalogue) await(ctx context.Context) bool {
	left := cataloguePatience
	if !c.began.IsZero() {
		left -= time.Since(c.began)
	}
	if left <= 0 {
		return false
	}
	done := c.done
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-done:
		return true
	case <-time.After(left):
	case <-ctx.Done():
	}
	return false
}

// due reports whether the cluster must be asked about a kind. good reports that the known answer is usable. The caller holds the lock.
func (c *Catalogue) due(good bool) bool {
	pause := catalogueRefresh
	switch {
	case good:
		pause = catalogueAge
	case c.err != nil:
		pause = catalogueRetry
	}
	return c.answered.IsZero() || time.Since(c.answered) >= pause
}

// missing returns the reason why a kind was not found, nil if it was or if the server reported none. A resource that was found once
// counts while the server does not answer. The caller holds the lock.
func (c *Catalogue) missing(found []schema.GroupVersionResource, version schema.GroupVersion) error {
	switch {
	case len(found) > 0:
		return nil
	case c.answered.IsZero() || c.stale[version]:
		return ErrNotAnswered
	}
	return c.err
}

// lookup returns the resources of a kind: in version, or for an empty version one of each group. The caller holds the lock.
func (c *Catalogue) lookup(version schema.GroupVersion, kind string) (found []schema.GroupVersionResource) {
	for _, r := range c.kinds[kind] {
		known := func(other schema.GroupVersionResource) bool { return other.Group == r.Group }
		named := !version.Empty() && r.GroupVersion() == version
		if named || version.Empty() && r.patchable && !slices.ContainsFunc(found, known) {
			found = append(found, r.GroupVersionResource)
		}
	}
	return found
}

// queue makes Run send a request after the one under way. The caller holds the lock.
func (c *Catalogue) queue() {
	if !c.queued {
		c.queued = true
		c.wanted <- struct{}{} // it has capacity: the previous signal was received
	}
}

func (c *Catalogue) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catalogueTimeout)
	defer cancel()
	c.mu.Lock()
	began := time.Now()
	c.queued, c.began, c.again = false, began, false
	c.mu.Unlock()
	groups, err := c.discovery.All(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; err == nil {
		c.answer, c.doubted = newAnswer(groups), c.again
	}
	c.asked, c.answered, c.began = began, time.Now(), time.Time{}
	close(c.done)
	c.done = make(chan struct{})
}

func newAnswer(groups []apidiscovery.APIGroupDiscovery) answer {
	a := answer{kinds: map[string][]servedResource{}, stale: map[schema.GroupVersion]bool{}}
	for _, group := range groups {
		for _, v := range group.Versions {
			version := schema.GroupVersion{Group: group.Name, Version: v.Version}
			if _, ok := ParseAPIVersion(version.String()); !ok {
				continue
			}
			if v.Freshness == apidiscovery.DiscoveryFreshnessStale {
				a.stale[version] = true
			}
			for _, r := range v.Resources {
				if r.ResponseKind == nil || r.Scope != apidiscovery.ScopeNamespace {
					continue
				}
				kind := r.ResponseKind.Kind
				if _, known := a.kinds[kind]; known || len(a.kinds) < maxKinds {
					a.kinds[kind] = append(a.kinds[kind], servedResource{version.WithResource(r.Resource), slices.Contains(r.Verbs, "patch")})
				}
			}
		}
	}
	return a
}

// maxGroupNames bounds the groups that an error lists.
const maxGroupNames = 8

// groupNames returns the groups of the resources in readable form, ordered.
func groupNames(found []schema.GroupVersionResource) []string {
	names := make([]string, 0, len(found))
	for _, r := range found {
		r.Group = cmp.Or(r.Group, `"" (core)`)
		names = append(names, r.Group)
	}
	slices.Sort(names)
	if len(names) > maxGroupNames {
		names = append(names[:maxGroupNames], "…")
	}
	return names
}

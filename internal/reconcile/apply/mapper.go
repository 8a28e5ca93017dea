package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/reconcile/kube"
)

// Discovery asks the API server what it serves. Its requests end with their context.
type Discovery interface {
	// Resources returns what a version of a group serves. The error is a NotFound for no such version.
	Resources(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error)
	// All returns what all versions of all groups serve, each group's in the server's order of preference.
	All(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error)
}

// errNotServed says that the cluster has no namespaced kind of that name and version.
var errNotServed = errors.New("the cluster serves no namespaced kind of that name and apiVersion: correct them, or have its definition installed")

// ambiguousError says that a target without an API version could be of several groups.
type ambiguousError struct {
	kind   string
	groups []string
}

func (e *ambiguousError) Error() string {
	return fmt.Sprintf("kind %s is served by the API groups %s: set apiVersion", e.kind, strings.Join(e.groups, ", "))
}

// unresolvable reports whether the error is the cluster's answer about a kind, rather than the lack of one.
func unresolvable(err error) bool {
	_, ambiguous := errors.AsType[*ambiguousError](err)
	return ambiguous || errors.Is(err, errNotServed)
}

const (
	// maxVersions bounds the versions whose catalogues are kept, since tenants name them, and maxUnserved those of one namespace that
	// serve nothing. Beyond it another one is forgotten, those that serve something last, so that invented versions do not have the
	// cluster's own asked for over and over.
	maxVersions = 256
	maxUnserved = 32
)

// mapper finds the resource by which a kind is written. It asks discovery for single versions where a target names one, and for all
// groups where none does. Answers are kept until a write finds no such object, or they are old.
type mapper struct {
	discovery Discovery
	// flights are the fetches under way. Wait joins them when nobody asks any more.
	flights  sync.WaitGroup
	all      *catalogue
	mu       sync.Mutex
	versions map[schema.GroupVersion]*catalogue
	paces    paces
}

func newMapper(d Discovery) *mapper {
	m := &mapper{discovery: d, versions: map[schema.GroupVersion]*catalogue{}}
	m.all = &catalogue{fetch: m.fetchAll}
	return m
}

// resource returns the resource of a target's kind: in the version that the target names, else in the only group that has the kind,
// in the version that the group prefers. The error is errNotServed or an *ambiguousError when the cluster has answered, and
// errNotAnswered while the namespace waits for its turn to have a version asked for.
//
// It waits no longer than fetchPatience, and ctx must outlive the call.
func (m *mapper) resource(ctx context.Context, namespace, apiVersion, kind string) (schema.GroupVersionResource, error) {
	none := schema.GroupVersionResource{}
	from, by := m.all, asker{}
	if apiVersion != "" {
		version, ok := kube.ParseAPIVersion(apiVersion)
		if !ok {
			return none, errNotServed
		}
		by = asker{paces: &m.paces, namespace: namespace}
		if from = m.version(version, &by); from == nil {
			return none, fmt.Errorf("look up %s %s: %w", apiVersion, kind, errNotAnswered)
		}
	}
	found, err := from.find(ctx, kind, by, &m.flights)
	switch {
	case err != nil:
		return none, fmt.Errorf("look up %s: %w", strings.TrimSpace(apiVersion+" "+kind), err)
	case len(found) == 0:
		return none, errNotServed
	case len(found) > 1:
		return none, &ambiguousError{kind, groupNames(found)}
	}
	return found[0], nil
}

// maxGroupNames is how many groups a refusal lists.
const maxGroupNames = 8

// groupNames are those of the resources for people, ordered.
func groupNames(found []schema.GroupVersionResource) []string {
	names := make([]string, 0, len(found))
	for _, r := range found {
		if r.Group == "" {
			r.Group = `"" (core)`
		}
		names = append(names, r.Group)
	}
	slices.Sort(names)
	if len(names) > maxGroupNames {
		names = append(names[:maxGroupNames], "…")
	}
	return names
}

// version returns the catalogue of a version, nil when it is not known and not the asker's turn to have it asked for.
func (m *mapper) version(version schema.GroupVersion, by *asker) *catalogue {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.versions[version]; ok {
		return c
	}
	if by.paid = by.allowed(); !by.paid {
		return nil
	}
	m.makeRoom(by.namespace)
	c := &catalogue{namespace: by.namespace, fetch: func(ctx context.Context) (kindsServed, error) { return m.fetchVersion(ctx, version) }}
	m.versions[version] = c
	return c
}

// makeRoom drops a catalogue where there would be too many: one of the namespace's own that serve nothing if those are, else another
// one. The caller holds the lock.
func (m *mapper) makeRoom(namespace string) {
	own := 0
	var drop schema.GroupVersion
	for version, c := range m.versions {
		if c.namespace == namespace && c.empty() {
			own, drop = own+1, version
		}
	}
	switch {
	case own >= maxUnserved:
	case len(m.versions) < maxVersions:
		return
	default:
		for version, c := range m.versions {
			if drop = version; c.empty() {
				break
			}
		}
	}
	delete(m.versions, drop)
}

// doubt has the version that a target names, or all groups where it names none, asked for again because a write found nothing there.
func (m *mapper) doubt(apiVersion string) {
	from := m.all
	if apiVersion != "" {
		version, ok := kube.ParseAPIVersion(apiVersion)
		if !ok {
			return
		}
		m.mu.Lock()
		from = m.versions[version]
		m.mu.Unlock()
	}
	if from != nil { // else it was forgotten, and is asked for anyway
		from.doubt()
	}
}

func (m *mapper) fetchVersion(ctx context.Context, version schema.GroupVersion) (kindsServed, error) {
	resources, err := m.discovery.Resources(ctx, version)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	served := kindsServed{}
	for _, r := range resources {
		if r.Namespaced && !strings.Contains(r.Name, "/") && len(served) < maxKinds {
			served[r.Kind] = []schema.GroupVersionResource{version.WithResource(r.Name)}
		}
	}
	return served, nil
}

// fetchAll finds each kind in each group once, in the first version that has it and can be patched.
func (m *mapper) fetchAll(ctx context.Context) (kindsServed, error) {
	groups, err := m.discovery.All(ctx)
	if err != nil {
		return nil, err
	}
	served := kindsServed{}
	for _, group := range groups {
		for _, v := range group.Versions {
			version := schema.GroupVersion{Group: group.Name, Version: v.Version}
			if _, ok := kube.ParseAPIVersion(version.String()); !ok {
				continue
			}
			for _, r := range v.Resources {
				if r.ResponseKind == nil || r.Scope != apidiscovery.ScopeNamespace || !slices.Contains(r.Verbs, "patch") {
					continue
				}
				served.add(r.ResponseKind.Kind, version.WithResource(r.Resource))
			}
		}
	}
	return served, nil
}

// add notes a resource of a kind unless its group has the kind already.
func (k kindsServed) add(kind string, r schema.GroupVersionResource) {
	found, known := k[kind]
	if !known && len(k) >= maxKinds {
		return
	}
	if !slices.ContainsFunc(found, func(x schema.GroupVersionResource) bool { return x.Group == r.Group }) {
		k[kind] = append(found, r)
	}
}

package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Discovery asks the API server what it serves.
type Discovery interface {
	// Resources returns what a version of a group serves. The error is a NotFound for no such version.
	Resources(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error)
}

// errNotServed says that the cluster has no namespaced kind of that name and version.
var errNotServed = errors.New("not a namespaced kind that the cluster serves")

const (
	// mapperRefresh is how often a version may be asked for again because a kind was not found in it.
	mapperRefresh = 10 * time.Second
	// mapperVersions bounds the versions kept, since tenants name them. Beyond it any other one is forgotten.
	mapperVersions = 256
)

// mapper finds the resource by which a kind is written. Answers are kept until a write finds no such object.
type mapper struct {
	discovery Discovery
	mu        sync.Mutex
	versions  map[schema.GroupVersion]*servedVersion
}

// servedVersion is what one version serves: resources by kind.
type servedVersion struct {
	mu        sync.Mutex
	asked     time.Time
	resources map[string]string
}

func newMapper(d Discovery) *mapper {
	return &mapper{discovery: d, versions: map[schema.GroupVersion]*servedVersion{}}
}

// resource returns the resource of a kind. The error is errNotServed when the cluster answers that there is none.
func (m *mapper) resource(ctx context.Context, apiVersion, kind string) (schema.GroupVersionResource, error) {
	none := schema.GroupVersionResource{}
	version, err := parseVersion(apiVersion)
	if err != nil {
		return none, err
	}
	v := m.version(version)
	v.mu.Lock() // also while asking: who needs the same answer waits for it
	defer v.mu.Unlock()
	if name, ok := v.resources[kind]; ok {
		return version.WithResource(name), nil
	}
	if v.asked.IsZero() || time.Since(v.asked) >= mapperRefresh {
		resources, err := m.discovery.Resources(ctx, version)
		if err != nil && !apierrors.IsNotFound(err) {
			return none, fmt.Errorf("look up %s: %w", apiVersion, err)
		}
		v.asked, v.resources = time.Now(), map[string]string{}
		for _, r := range resources {
			if r.Namespaced && !strings.Contains(r.Name, "/") {
				v.resources[r.Kind] = r.Name
			}
		}
	}
	if name, ok := v.resources[kind]; ok {
		return version.WithResource(name), nil
	}
	return none, errNotServed
}

// parseVersion refuses what is not a plain group and version, which come from a tenant and become part of a path.
func parseVersion(apiVersion string) (schema.GroupVersion, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || len(validation.IsDNS1035Label(version.Version)) > 0 ||
		version.Group != "" && len(validation.IsDNS1123Subdomain(version.Group)) > 0 {
		return schema.GroupVersion{}, errNotServed
	}
	return version, nil
}

func (m *mapper) version(version schema.GroupVersion) *servedVersion {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.versions[version]; ok {
		return v
	}
	for other := range m.versions {
		if len(m.versions) < mapperVersions {
			break
		}
		delete(m.versions, other)
	}
	v := &servedVersion{}
	m.versions[version] = v
	return v
}

// doubt has a version asked for again, though no more often than mapperRefresh, because a write found nothing there.
func (m *mapper) doubt(version schema.GroupVersion) {
	v := m.version(version)
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.asked) >= mapperRefresh {
		v.resources = nil
	}
}
